// An S3 server in memory that checks signatures (AWS Signature Version 4) and serves TLS.
//
//	s3 ADDRESS CERTIFICATE KEY ACCESS_KEY_ID SECRET_ACCESS_KEY BUCKET
//
// It has one bucket, and creates no other one. It runs until it gets a signal.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) != 6 {
		return fmt.Errorf("6 arguments are needed, and there are %d", len(words))
	}
	store := s3mem.New()
	if err := store.CreateBucket(nil, words[5]); err != nil {
		return err
	}
	server := gofakes3.New(
		store,
		gofakes3.WithV4Auth(map[string]string{words[3]: words[4]}),
		// No WithAutoBucket: it creates missing buckets, whatever its argument.
	)
	return http.ListenAndServeTLS(words[0], words[1], words[2], server.Server())
}
