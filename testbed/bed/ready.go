package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

func listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// ready measures, for so many pods, the time from listen() to `ready: true` in an EndpointSlice.
func ready(arguments []string) error {
	if err := arity(arguments, 5, "KUBECONFIG IMAGE PROGRAM PODS PROBE_JSON"); err != nil {
		return err
	}
	server, err := dial(arguments[0])
	if err != nil {
		return err
	}
	image, program := arguments[1], arguments[2]
	var count int
	var probe map[string]any
	if _, err := fmt.Sscan(arguments[3], &count); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(arguments[4]), &probe); err != nil {
		return err
	}
	probe["httpGet"] = map[string]any{"port": 8080}
	namespace, err := space(server, "ready")
	if err != nil {
		return err
	}
	defer server.call(0, "DELETE", "/api/v1/namespaces/"+namespace, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	seen, done := readiness(count)
	if err := server.watch(ctx, connections, "/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices?watch=true&timeoutSeconds=180", seen.line); err != nil {
		return err
	}
	service := map[string]any{"metadata": map[string]string{"name": "web"}, "spec": map[string]any{"selector": map[string]string{"app": "web"}, "ports": []any{map[string]any{"port": 8080}}}}
	if _, err := server.call(0, "POST", "/api/v1/namespaces/"+namespace+"/services", service); err != nil {
		return err
	}
	// The same pods in every run.
	random := rand.New(rand.NewSource(3066))
	for number := range count {
		delay := 1500 + random.Intn(2000)
		if err := startPod(server, namespace, fmt.Sprintf("web-%d", number), image, []string{program, "serve", "8080", fmt.Sprint(delay)}, probe); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("only %d of %d pods became ready", len(seen.at), count)
	}
	times, err := fromListen(server, namespace, seen.at)
	if err != nil {
		return err
	}
	fmt.Printf("listen to ready, %s: %s\n", arguments[4], percentiles(times))
	return nil
}

func startPod(server *server, namespace, name, image string, command []string, probe map[string]any) error {
	container := map[string]any{
		"name": "web", "image": image, "imagePullPolicy": "Never", "command": command, "ports": []any{map[string]any{"containerPort": 8080}},
		"env": []any{map[string]any{"name": "POD_IP", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.podIP"}}}},
	}
	if probe != nil {
		container["readinessProbe"] = probe
	}
	pod := map[string]any{
		"metadata": map[string]any{"name": name, "labels": map[string]string{"app": "web"}},
		"spec":     map[string]any{"terminationGracePeriodSeconds": 0, "containers": []any{container}},
	}
	_, err := server.call(0, "POST", "/api/v1/namespaces/"+namespace+"/pods", pod)
	return err
}

// A record says when each pod was first seen ready in a slice.
type record struct {
	mutex sync.Mutex
	at    map[string]time.Time
	count int
	done  chan struct{}
}

func readiness(count int) (*record, <-chan struct{}) {
	record := &record{at: map[string]time.Time{}, count: count, done: make(chan struct{})}
	return record, record.done
}

func (record *record) line(line []byte) {
	now := time.Now()
	var event struct {
		Object struct {
			Endpoints []struct {
				Conditions struct{ Ready *bool }
				TargetRef  struct{ Name string }
			}
		}
	}
	if json.Unmarshal(line, &event) != nil {
		return
	}
	record.mutex.Lock()
	defer record.mutex.Unlock()
	for _, endpoint := range event.Object.Endpoints {
		if _, known := record.at[endpoint.TargetRef.Name]; !known && endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
			record.at[endpoint.TargetRef.Name] = now
			if len(record.at) == record.count {
				close(record.done)
			}
		}
	}
}

// fromListen reads from the logs when each pod listened, and returns how much later each was ready.
func fromListen(server *server, namespace string, at map[string]time.Time) ([]time.Duration, error) {
	var times []time.Duration
	for name, ready := range at {
		log, err := server.call(0, "GET", "/api/v1/namespaces/"+namespace+"/pods/"+name+"/log", nil)
		if err != nil {
			return nil, err
		}
		var nanoseconds int64
		if _, err := fmt.Sscanf(strings.TrimSpace(string(log)), "listening %d", &nanoseconds); err != nil {
			return nil, fmt.Errorf("%s: %s", name, log)
		}
		times = append(times, ready.Sub(time.Unix(0, nanoseconds)))
	}
	return times, nil
}

// probed starts so many pods, with a probe or without, waits until all run, and says so; the pods go when it is told to end.
func probed(arguments []string) error {
	if err := arity(arguments, 5, "KUBECONFIG IMAGE PROGRAM PODS PROBE_JSON"); err != nil {
		return err
	}
	server, err := dial(arguments[0])
	if err != nil {
		return err
	}
	var count int
	if _, err := fmt.Sscan(arguments[3], &count); err != nil {
		return err
	}
	var probe map[string]any
	if err := json.Unmarshal([]byte(arguments[4]), &probe); err != nil {
		return err
	}
	if probe != nil {
		probe["httpGet"] = map[string]any{"port": 8080}
	}
	namespace, err := space(server, "probed")
	if err != nil {
		return err
	}
	defer server.call(0, "DELETE", "/api/v1/namespaces/"+namespace, nil)
	for number := range count {
		if err := startPod(server, namespace, fmt.Sprintf("web-%d", number), arguments[1], []string{arguments[2], "serve", "8080", "0"}, probe); err != nil {
			return err
		}
	}
	path := "/api/v1/namespaces/" + namespace + "/pods?fieldSelector=status.phase%3DRunning"
	for range 1200 {
		text, err := server.call(0, "GET", path, nil)
		if err != nil {
			return err
		}
		var list struct{ Items []any }
		if json.Unmarshal(text, &list) == nil && len(list.Items) == count {
			fmt.Println("all run")
			return pause(nil)
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("the pods do not run")
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
