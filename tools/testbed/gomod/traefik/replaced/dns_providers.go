// Package dns takes the place of lego's table of DNS providers, which only ACME by DNS uses.
//
// The table imports a client of each cloud. Several are very large, and not every one is served.
package dns

import (
	"fmt"

	"github.com/go-acme/lego/v5/challenge"
)

// NewDNSChallengeProviderByName returns an error, because the testbed asks no certificate by DNS.
func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	return nil, fmt.Errorf("the DNS provider %s is not part of the testbed", name)
}
