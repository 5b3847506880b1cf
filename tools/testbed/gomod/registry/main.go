// The registry with the one storage driver that the testbed uses: the libraries of the drivers for
// clouds are most of what upstream's program is compiled from.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}
