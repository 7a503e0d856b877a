package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A server is one that is measured, with connections of its own: a client has one each, opened with its first request.
type server struct {
	base    string
	config  *rest.Config
	clients []*http.Client
}

// Requests of a load have so many connections; the one after them is for a watch.
const connections = 32

func dial(kubeconfig string) (*server, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	server := &server{base: config.Host, config: config}
	return server, server.connect(connections + 1)
}

// connect makes sure that there are so many connections.
func (server *server) connect(count int) error {
	for len(server.clients) < count {
		tls, err := rest.TLSConfigFor(server.config)
		if err != nil {
			return err
		}
		server.clients = append(server.clients, &http.Client{Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, MaxConnsPerHost: 1, DisableCompression: true}})
	}
	return nil
}

// A server that has too much to do is asked again so often, a second later each time.
const patience = 30

// send sends a request over a connection and returns an answer that is good. The time that a busy server takes is time of the request.
func (server *server) send(connection int, method, path string, body any) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		answer, err := server.sendOnce(connection, method, path, body)
		if attempt == patience || !hasCode(err, http.StatusTooManyRequests) {
			return answer, err
		}
		time.Sleep(time.Second)
	}
}

func (server *server) sendOnce(connection int, method, path string, body any) (*http.Response, error) {
	kind := "application/json"
	if method == "PATCH" {
		kind = "application/merge-patch+json"
	}
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
	request.Header.Set("Content-Type", kind)
	answer, err := server.clients[connection].Do(request)
	if err != nil || answer.StatusCode < 300 {
		return answer, err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return nil, &refusal{answer.StatusCode, fmt.Sprintf("%s %s: %s %s", method, path, answer.Status, text)}
}

// A refusal is an answer that is not good.
type refusal struct {
	code int
	text string
}

func (refusal *refusal) Error() string { return refusal.text }

func isMissing(err error) bool { return hasCode(err, http.StatusNotFound) }
func hasCode(err error, code int) bool {
	var refusal *refusal
	return errors.As(err, &refusal) && refusal.code == code
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

// read reads something, forgets it and says how long it was: what the server does is measured, not what a client does with it.
func (server *server) read(connection int, path string) (int64, error) {
	answer, err := server.send(connection, "GET", path, nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	return io.Copy(io.Discard, answer.Body)
}

// Events of a load are not longer than this.
const longestEvent = 1 << 16

// watch calls seen for every event of a path until the context ends; it returns when the watch is open. A line is good until the next.
func (server *server) watch(ctx context.Context, connection int, path string, seen func(line []byte)) error {
	request, err := http.NewRequestWithContext(ctx, "GET", server.base+path, nil)
	if err != nil {
		return err
	}
	answer, err := server.clients[connection].Do(request)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return fmt.Errorf("watch %s: %s", path, answer.Status)
	}
	go func() {
		defer answer.Body.Close()
		// Nothing is allocated for an event: the garbage of so many would take its time from those who are measured.
		lines := bufio.NewReaderSize(answer.Body, longestEvent)
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return
			}
			seen(line)
		}
	}()
	return nil
}

// space makes a namespace and waits for its account.
func space(server *server, prefix string) (string, error) {
	name := fmt.Sprintf("%s-%x", prefix, time.Now().UnixNano())
	if _, err := server.call(0, "POST", "/api/v1/namespaces", map[string]any{"metadata": map[string]string{"name": name}}); err != nil {
		return "", err
	}
	for range 300 {
		if _, err := server.call(0, "GET", "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil); err == nil {
			return name, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "", fmt.Errorf("%s has no service account", name)
}
