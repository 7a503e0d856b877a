package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What the load is made of: docs/benchmarks.md says it too.
const (
	objects = 20_000
	some    = 10_000
	lists   = 2_000
	listed  = 500
	long    = 9_600
	reads   = 20_000
	renewed = 10_000
)

// A crowd is who makes a load: so many connections, with so many streams each.
type crowd struct{ connections, streams int }

// each runs work on so many numbers; returns how long all took, and how long each.
func (crowd crowd) each(count int, work func(connection, number int) error) (time.Duration, []time.Duration, error) {
	var next atomic.Int64
	var failed atomic.Value
	var group sync.WaitGroup
	took := make([]time.Duration, count)
	begin := time.Now()
	for stream := range crowd.connections * crowd.streams {
		group.Go(func() {
			for {
				number := int(next.Add(1)) - 1
				if number >= count || failed.Load() != nil {
					return
				}
				start := time.Now()
				if err := work(stream%crowd.connections, number); err != nil {
					failed.Store(err)
				}
				took[number] = time.Since(start)
			}
		})
	}
	group.Wait()
	err, _ := failed.Load().(error)
	return time.Since(begin), took, err
}

// configMap is an object of so many bytes of data.
func configMap(name string, size int) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": name, "labels": map[string]string{"app": "load"}},
		"data":     map[string]string{"text": strings.Repeat("x", size)},
	}
}

// percentiles prints p50, p90 and p99 in milliseconds.
func percentiles(times []time.Duration) string {
	if len(times) == 0 {
		return "nothing was measured"
	}
	slices.Sort(times)
	at := func(share float64) float64 { return float64(times[int(share*float64(len(times)-1))]) / 1e6 }
	return fmt.Sprintf("p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms (%d)", at(.5), at(.9), at(.99), at(1), len(times))
}

// A target is where a load goes: the objects of one kind in one namespace.
type target struct {
	server *server
	path   string
}

func (target target) create(name string, size int) func(connection, number int) error {
	return func(connection, number int) error {
		_, err := target.server.call(connection, "POST", target.path, configMap(fmt.Sprintf("%s-%d", name, number), size))
		return err
	}
}

// A row is something that can be measured; some only when they are asked for.
type row struct {
	name  string
	run   func(*server) error
	asked bool
}

// rows are what can be measured, in this order.
var rows = []row{
	{"creates", creates, false}, {"renewals", renewals, false}, {"gets", gets, false}, {"long-lists", longLists, false},
	{"lists", shortLists, false}, {"watcher", oneWatcher, false}, {"watchers", manyWatchers, false}, {"objects", manyObjects, false},
	{"some-objects", someObjects, true},
}

// load measures what an API server does: all rows, or these.
func load(arguments []string) error {
	if err := arity(arguments, 1, "KUBECONFIG [ROW...]"); err != nil {
		return err
	}
	server, err := dial(arguments[0])
	if err != nil {
		return err
	}
	asked := arguments[1:]
	for _, name := range asked {
		if !slices.ContainsFunc(rows, func(row row) bool { return row.name == name }) {
			return fmt.Errorf("no row %s", name)
		}
	}
	for _, row := range rows {
		if row.asked || len(asked) > 0 {
			if !slices.Contains(asked, row.name) {
				continue
			}
		}
		if err := row.run(server); err != nil {
			return err
		}
	}
	return nil
}

// How long the objects of a row may take to go.
const going = 5 * time.Minute

// in makes a namespace for objects of a kind; done removes it and waits until it is gone, so that no row is measured beside the
// deletion of what another made.
func (server *server) in(prefix, resources string) (target, func(), error) {
	namespace, err := space(server, prefix)
	path := "/" + strings.Replace(resources, "NAMESPACE", "namespaces/"+namespace, 1)
	return target{server, path}, func() { server.remove("/api/v1/namespaces/" + namespace) }, err
}

// remove deletes an object and waits until it is gone.
func (server *server) remove(path string) {
	_, err := server.call(0, "DELETE", path, nil)
	for deadline := time.Now().Add(going); err == nil && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		_, err = server.call(0, "GET", path, nil)
	}
	if !isMissing(err) {
		fmt.Fprintf(os.Stderr, "%s does not go: %v\n", path, err)
	}
}

const configMaps = "api/v1/NAMESPACE/configmaps"

// creates measures objects of 1 KiB by clients with a connection each.
func creates(server *server) error {
	target, done, err := server.in("create", configMaps)
	if err != nil {
		return err
	}
	defer done()
	for _, clients := range []int{1, 8, 32} {
		count := 1_000 * min(clients, 8)
		took, each, err := crowd{clients, 1}.each(count, target.create(fmt.Sprint("c", clients), 800))
		if err != nil {
			return err
		}
		fmt.Printf("creates per second, %d clients: %.0f; %s\n", clients, float64(count)/took.Seconds(), percentiles(each))
	}
	return nil
}

// renewals measures merge patches of Leases, as nodes renew theirs.
func renewals(server *server) error {
	const leases = 1_000
	target, done, err := server.in("renew", "apis/coordination.k8s.io/v1/NAMESPACE/leases")
	if err != nil {
		return err
	}
	defer done()
	crowd := crowd{32, 1}
	_, _, err = crowd.each(leases, func(connection, number int) error {
		lease := map[string]any{"metadata": map[string]any{"name": fmt.Sprint("l-", number)}, "spec": map[string]any{"holderIdentity": "node", "leaseDurationSeconds": 40}}
		_, err := server.call(connection, "POST", target.path, lease)
		return err
	})
	if err != nil {
		return err
	}
	took, each, err := crowd.each(renewed, func(connection, number int) error {
		patch := map[string]any{"spec": map[string]any{"renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")}}
		_, err := server.call(connection, "PATCH", fmt.Sprintf("%s/l-%d", target.path, number%leases), patch)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("merge patches of Leases per second, 32 clients: %.0f; %s\n", renewed/took.Seconds(), percentiles(each))
	return nil
}

// gets measures reads of one object.
func gets(server *server) error {
	target, done, err := server.in("get", configMaps)
	if err != nil {
		return err
	}
	defer done()
	if err := target.create("c", 800)(0, 0); err != nil {
		return err
	}
	took, each, err := crowd{32, 1}.each(reads, func(connection, _ int) error {
		_, err := server.read(connection, target.path+"/c-0")
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("gets per second, 32 clients: %.0f; %s\n", reads/took.Seconds(), percentiles(each))
	return nil
}

// longLists measures lists without pages of as many objects as a large namespace has.
func longLists(server *server) error {
	target, done, err := server.in("long", configMaps)
	if err != nil {
		return err
	}
	defer done()
	if _, _, err := (crowd{8, 8}).each(long, target.create("c", 800)); err != nil {
		return err
	}
	var bytes int64
	const times = 10
	took, _, err := crowd{1, 1}.each(times, func(connection, _ int) error {
		count, err := server.read(connection, target.path)
		bytes += count
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("lists of %d: %.0f MB/s, %.0f ms each\n", long, float64(bytes)/1e6/took.Seconds(), took.Seconds()*1000/times)
	return nil
}

// shortLists measures pages of a list.
func shortLists(server *server) error {
	target, done, err := server.in("five", configMaps)
	if err != nil {
		return err
	}
	defer done()
	if _, _, err := (crowd{8, 8}).each(listed, target.create("c", 600)); err != nil {
		return err
	}
	took, _, err := crowd{8, 1}.each(lists, func(connection, _ int) error {
		_, err := server.read(connection, target.path+"?limit=500")
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("lists of %d per second: %.0f\n", listed, lists/took.Seconds())
	return nil
}

// manyObjects comes last and leaves its objects there: whoever asks how much memory they take asks after it.
func manyObjects(server *server) error { return fill(server, "load", objects) }

// someObjects leaves fewer there.
func someObjects(server *server) error { return fill(server, "some", some) }

func fill(server *server, prefix string, count int) error {
	target, _, err := server.in(prefix, configMaps)
	if err != nil {
		return err
	}
	took, each, err := crowd{8, 8}.each(count, target.create("c", 600))
	if err != nil {
		return err
	}
	fmt.Printf("creates per second, 8 connections of 8 streams: %.0f (slowest %d ms)\n", float64(count)/took.Seconds(), slices.Max(each).Milliseconds())
	return nil
}
