package main

import (
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcd serves one member until it is told to stop. It has no certificates: the bed has a loopback of its own.
func etcd(arguments []string) error {
	if err := arity(arguments, 2, "DATA CLIENT_URL [durable]"); err != nil {
		return err
	}
	client, err := url.Parse(arguments[1])
	if err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Dir = arguments[0]
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.LogLevel = "warn"
	// A test bed is thrown away: nothing of it must survive a loss of power, unless that is what is measured.
	config.UnsafeNoFsync = len(arguments) < 3
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-stop:
		return nil
	case err := <-server.Err():
		return err
	}
}
