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
	return readyAll(arguments, 100, []kind{{name: "web", what: arguments[4]}})
}

// moved measures the same for pods whose probe is moved by annotation and, one for every three of them, stock pods beside them.
func moved(arguments []string) error {
	if err := arity(arguments, 6, "KUBECONFIG IMAGE PROGRAM PODS PROBE_JSON STAGGER_MS"); err != nil {
		return err
	}
	var stagger int
	if _, err := fmt.Sscan(arguments[5], &stagger); err != nil {
		return err
	}
	asks := map[string]string{"lifesign.dev/probes": `{"web": {"readinessProbe": {}}}`}
	movedKind := kind{name: "moved", what: "moved", annotations: asks, weight: 3}
	return readyAll(arguments[:5], stagger, []kind{movedKind, {name: "stock", what: "stock", weight: 1}})
}

// A kind of pods that are measured apart: so many of each round.
type kind struct {
	name, what  string
	annotations map[string]string
	weight      int
}

// readyAll starts pods of all kinds in turn; PODS of the arguments is the number of the first kind.
func readyAll(arguments []string, stagger int, kinds []kind) error {
	server, err := dial(arguments[0])
	if err != nil {
		return err
	}
	var first int
	var probe map[string]any
	if _, err := fmt.Sscan(arguments[3], &first); err != nil {
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
	order := inTurn(first, kinds)
	seen, done := readiness(len(order))
	if err := server.watch(ctx, connections, "/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices?watch=true&timeoutSeconds=180", seen.line); err != nil {
		return err
	}
	for _, kind := range kinds {
		service := map[string]any{"metadata": map[string]string{"name": kind.name}, "spec": map[string]any{"selector": map[string]string{"app": kind.name}, "ports": []any{map[string]any{"port": 8080}}}}
		if _, err := server.call(0, "POST", "/api/v1/namespaces/"+namespace+"/services", service); err != nil {
			return err
		}
	}
	// The same pods in every run.
	random := rand.New(rand.NewSource(3066))
	for number, kind := range order {
		delay := 1500 + random.Intn(2000)
		command := []string{arguments[2], "serve", "8080", fmt.Sprint(delay)}
		if err := startPod(server, namespace, fmt.Sprintf("%s-%d", kind.name, number), kind, arguments[1], command, probe); err != nil {
			return err
		}
		time.Sleep(time.Duration(stagger) * time.Millisecond)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("only %d of %d pods became ready", len(seen.at), len(order))
	}
	for _, kind := range kinds {
		times, err := fromListen(server, namespace, kind.name, seen.at)
		if err != nil {
			return err
		}
		fmt.Printf("listen to ready, %s: %s\n", kind.what, percentiles(times))
	}
	return nil
}

// inTurn returns which kind the pods are of, one after the other, until there are enough of the first.
func inTurn(first int, kinds []kind) []kind {
	var order []kind
	for first > 0 {
		for number, kind := range kinds {
			for range max(kind.weight, 1) {
				order = append(order, kind)
				if number == 0 {
					first--
				}
			}
		}
	}
	return order
}

func startPod(server *server, namespace, name string, kind kind, image string, command []string, probe map[string]any) error {
	container := map[string]any{
		"name": "web", "image": image, "imagePullPolicy": "Never", "command": command, "ports": []any{map[string]any{"containerPort": 8080}},
		"env": []any{map[string]any{"name": "POD_IP", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.podIP"}}}},
	}
	if probe != nil {
		container["readinessProbe"] = probe
	}
	pod := map[string]any{
		"metadata": map[string]any{"name": name, "labels": map[string]string{"app": kind.name}, "annotations": kind.annotations},
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

// fromListen reads from the logs when each pod of a kind listened, and returns how much later each was ready.
func fromListen(server *server, namespace, kind string, at map[string]time.Time) ([]time.Duration, error) {
	var times []time.Duration
	for name, ready := range at {
		if !strings.HasPrefix(name, kind+"-") {
			continue
		}
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
		if err := startPod(server, namespace, fmt.Sprintf("web-%d", number), kind{name: "web"}, arguments[1], []string{arguments[2], "serve", "8080", "0"}, probe); err != nil {
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
