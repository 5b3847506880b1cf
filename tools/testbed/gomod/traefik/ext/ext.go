// Package ext has no extensions of Traefik's configuration, as in its own releases.
package ext

type HTTP struct{}

type Router struct{}
