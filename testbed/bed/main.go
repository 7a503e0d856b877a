// Command bed is what the test bed needs beside Kubernetes itself: the first process of the node, an etcd, certificates and images.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var commands = map[string]struct {
	usage string
	run   func(arguments []string) error
}{
	"init":  {"FOLDER: runs the units of FOLDER, one executable file each, and starts again what ends", initialize},
	"etcd":  {"DATA CLIENT_URL [durable]: serves one member on loopback", etcd},
	"certs": {"FOLDER NODE ADDRESS SERVICE_ADDRESS: writes certificates and kubeconfigs as kubeadm does", certificates},
	"image": {"NAME OUT COMMAND PATH=FILE...: writes an image archive of these files", image},
	"load":  {"KUBECONFIG [ROW...]: measures creates, reads, lists and watches of an API server", load},
	"ready": {"KUBECONFIG IMAGE PROGRAM PODS PROBE_JSON: measures from listen() to ready in an EndpointSlice", ready},
	"moved": {"KUBECONFIG IMAGE PROGRAM PODS PROBE_JSON STAGGER_MS: the same with moved probes, and stock pods beside them", moved},
	"pods":  {"KUBECONFIG IMAGE PROGRAM PODS PROBE_JSON: runs pods, with a readiness probe or null, until told to stop", probed},
	"serve": {"PORT MILLISECONDS: listens so long after its start", serve},
	"pause": {": holds the namespaces of a pod", pause},
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]].run == nil {
		for name, command := range commands {
			fmt.Fprintln(os.Stderr, "bed", name, command.usage)
		}
		os.Exit(2)
	}
	if err := commands[os.Args[1]].run(os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "bed %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// arity fails unless there are at least this many arguments.
func arity(arguments []string, count int, usage string) error {
	if len(arguments) < count {
		return fmt.Errorf("usage: %s", usage)
	}
	return nil
}

func pause([]string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
	return nil
}
