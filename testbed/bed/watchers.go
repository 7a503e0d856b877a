package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// How long writes go on, and how long their events may come after the last of them.
const (
	written = 20 * time.Second
	late    = time.Minute
)

func oneWatcher(server *server) error   { return writeToWatch(server, 1, 100) }
func manyWatchers(server *server) error { return writeToWatch(server, 100, 500) }

// delays are from the sending of a write to the event of it, at one watcher. Each watcher has its own, made as long as they can become,
// so that taking a time neither waits for another watcher nor allocates.
type delays struct {
	times []time.Duration
	count atomic.Int64
}

func (delays *delays) add(delay time.Duration) {
	// One goroutine adds; whoever reads, reads what count says.
	if count := delays.count.Load(); int(count) < len(delays.times) {
		delays.times[count] = delay
		delays.count.Store(count + 1)
	}
}

// wait returns the delays of all watchers when each has so many, or when no more are waited for.
func wait(watchers []*delays, count int) []time.Duration {
	for deadline := time.Now().Add(late); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if !slices.ContainsFunc(watchers, func(delays *delays) bool { return int(delays.count.Load()) < count }) {
			break
		}
	}
	var all []time.Duration
	for _, delays := range watchers {
		all = append(all, delays.times[:delays.count.Load()]...)
	}
	return all
}

// writeToWatch measures from sending a create to the event of it at each of so many watchers, each with a connection of its own,
// at so many creates a second. The time of sending is part of the name. A server that is too slow for the rate gets fewer creates.
func writeToWatch(server *server, watchers, rate int) error {
	target, done, err := server.in("watch", configMaps)
	if err != nil {
		return err
	}
	defer done()
	if err := server.connect(connections + watchers); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := make([]*delays, watchers)
	for watcher := range seen {
		mine := &delays{times: make([]time.Duration, rate*int(written/time.Second))}
		seen[watcher] = mine
		err := server.watch(ctx, connections+watcher, target.path+"?watch=true&labelSelector=app%3Dload&timeoutSeconds=300", func(line []byte) {
			if sent, known := sentAt(line); known {
				mine.add(time.Since(sent))
			}
		})
		if err != nil {
			return err
		}
	}
	count, err := atRate(rate, func(connection, number int) error {
		name := fmt.Sprintf("%s%d-%d", sentMark, time.Now().UnixNano(), number)
		_, err := server.call(connection, "POST", target.path, configMap(name, 800))
		return err
	})
	if err != nil {
		return err
	}
	times := wait(seen, count)
	fmt.Printf("write to watch, %d watchers, %d writes/s (%.0f were done, %.0f%% of the events came): %s\n",
		watchers, rate, float64(count)/written.Seconds(), 100*float64(len(times))/float64(count*watchers), percentiles(times))
	return nil
}

const sentMark = "w-"

// sentAt reads from an event when its object was sent.
func sentAt(line []byte) (time.Time, bool) {
	_, rest, found := bytes.Cut(line, []byte(`"name":"`+sentMark))
	digits, _, ended := bytes.Cut(rest, []byte("-"))
	nanoseconds, err := strconv.ParseInt(string(digits), 10, 64)
	return time.Unix(0, nanoseconds), found && ended && err == nil
}

// atRate starts work so many times a second for as long as writes go on, and returns how often; what takes long delays nothing until
// all connections are busy.
func atRate(rate int, work func(connection, number int) error) (int, error) {
	var done atomic.Int64
	begin := time.Now()
	count := rate * int(written/time.Second)
	_, _, err := crowd{connections, 1}.each(count, func(connection, number int) error {
		time.Sleep(time.Until(begin.Add(time.Duration(number) * time.Second / time.Duration(rate))))
		if time.Since(begin) > written {
			return nil
		}
		done.Add(1)
		return work(connection, number)
	})
	return int(done.Load()), err
}
