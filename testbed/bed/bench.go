package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The load: as many objects as README.md of the figures says, over so many connections with so many streams each.
const (
	objects     = 20_000
	connections = 8
	streams     = 8
	lists       = 2_000
	listed      = 500
	watched     = 500
)

// A server is one that is measured, with one client per connection.
type server struct {
	base    string
	clients []*http.Client
}

func dial(kubeconfig string) (*server, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	server := &server{base: config.Host}
	for range connections + 1 {
		tls, err := rest.TLSConfigFor(config)
		if err != nil {
			return nil, err
		}
		server.clients = append(server.clients, &http.Client{Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, MaxConnsPerHost: 1, DisableCompression: true}})
	}
	return server, nil
}

// send sends a request over a connection and returns an answer that is good.
func (server *server) send(connection int, method, path string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, server.base+path, reader)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := server.clients[connection].Do(request)
	if err != nil || answer.StatusCode < 300 {
		return answer, err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return nil, fmt.Errorf("%s %s: %s %s", method, path, answer.Status, text)
}

// call sends a request over a connection and returns the body of an answer that is good.
func (server *server) call(connection int, method, path string, body any) ([]byte, error) {
	answer, err := server.send(connection, method, path, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

// read reads something and forgets it: what the server does is measured, not what a client does with it.
func (server *server) read(connection int, path string) error {
	answer, err := server.send(connection, "GET", path, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// watch calls seen for every event of a path until the context ends; it returns when the watch is open.
func (server *server) watch(ctx context.Context, path string, seen func(line []byte)) error {
	request, err := http.NewRequestWithContext(ctx, "GET", server.base+path, nil)
	if err != nil {
		return err
	}
	answer, err := server.clients[connections].Do(request)
	if err != nil {
		return err
	}
	go func() {
		defer answer.Body.Close()
		lines := bufio.NewReaderSize(answer.Body, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			seen(line)
		}
	}()
	return nil
}

// each runs work on so many numbers, over so many streams of every connection; returns how long all took, and the longest one.
func each(count, streams int, work func(connection, number int) error) (time.Duration, time.Duration, error) {
	var next, slowest atomic.Int64
	var failed atomic.Value
	var group sync.WaitGroup
	begin := time.Now()
	for stream := range connections * streams {
		group.Go(func() {
			for {
				number := int(next.Add(1))
				if number > count || failed.Load() != nil {
					return
				}
				start := time.Now()
				if err := work(stream%connections, number); err != nil {
					failed.Store(err)
				}
				took := int64(time.Since(start))
				for before := slowest.Load(); took > before && !slowest.CompareAndSwap(before, took); before = slowest.Load() {
				}
			}
		})
	}
	group.Wait()
	err, _ := failed.Load().(error)
	return time.Since(begin), time.Duration(slowest.Load()), err
}

func configMap(name string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": name, "labels": map[string]string{"app": "load"}},
		"data":     map[string]string{"text": strings.Repeat("x", 600)},
	}
}

// percentiles prints p50 and p99 in milliseconds.
func percentiles(times []time.Duration) string {
	if len(times) == 0 {
		return "nothing was measured"
	}
	slices.Sort(times)
	at := func(share float64) float64 { return float64(times[int(share*float64(len(times)-1))]) / 1e6 }
	return fmt.Sprintf("p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms (%d)", at(.5), at(.9), at(.99), at(1), len(times))
}

// load measures creates, lists and watches of an API server.
func load(arguments []string) error {
	if err := arity(arguments, 1, "KUBECONFIG"); err != nil {
		return err
	}
	server, err := dial(arguments[0])
	if err != nil {
		return err
	}
	suffix := fmt.Sprintf("%x", time.Now().UnixNano())
	many, few := "load-"+suffix, "five-"+suffix
	for _, name := range []string{many, few} {
		if _, err := server.call(0, "POST", "/api/v1/namespaces", map[string]any{"metadata": map[string]string{"name": name}}); err != nil {
			return err
		}
	}
	path := func(namespace string) string { return "/api/v1/namespaces/" + namespace + "/configmaps" }
	create := func(namespace string) func(connection, number int) error {
		return func(connection, number int) error {
			_, err := server.call(connection, "POST", path(namespace), configMap(fmt.Sprintf("c-%d", number)))
			return err
		}
	}
	took, slowest, err := each(objects, streams, create(many))
	if err != nil {
		return err
	}
	fmt.Printf("creates per second: %.0f (slowest %d ms)\n", objects/took.Seconds(), slowest.Milliseconds())
	if _, _, err := each(listed, streams, create(few)); err != nil {
		return err
	}
	took, _, err = each(lists, 1, func(connection, _ int) error { return server.read(connection, path(few)+"?limit=500") })
	if err != nil {
		return err
	}
	fmt.Printf("lists of %d per second: %.0f\n", listed, lists/took.Seconds())
	times, err := writeToWatch(server, path(few))
	if err != nil {
		return err
	}
	fmt.Printf("write to watch: %s\n", percentiles(times))
	return nil
}

// writeToWatch measures from sending a create to the event of it, one at a time.
func writeToWatch(server *server, path string) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	events := make(chan time.Time, watched)
	err := server.watch(ctx, path+"?watch=true&labelSelector=app%3Dload&resourceVersion=0&timeoutSeconds=120&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", func(line []byte) {
		if bytes.Contains(line, []byte(`"name":"w-`)) {
			events <- time.Now()
		}
	})
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for number := range watched {
		sent := time.Now()
		if _, err := server.call(0, "POST", path, configMap(fmt.Sprintf("w-%d", number))); err != nil {
			return nil, err
		}
		select {
		case seen := <-events:
			times = append(times, seen.Sub(sent))
		case <-ctx.Done():
			return nil, fmt.Errorf("the event of object %d never came", number)
		}
	}
	return times, nil
}

// serve listens some milliseconds after its start, says when, and answers every request.
func serve(arguments []string) error {
	if err := arity(arguments, 2, "PORT MILLISECONDS"); err != nil {
		return err
	}
	var delay int
	if _, err := fmt.Sscan(arguments[1], &delay); err != nil {
		return err
	}
	time.Sleep(time.Duration(delay) * time.Millisecond)
	listener, err := listen(os.Getenv("POD_IP") + ":" + arguments[0])
	if err != nil {
		return err
	}
	fmt.Println("listening", time.Now().UnixNano())
	return http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, "ok") }))
}
