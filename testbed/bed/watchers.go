package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// How long writes go on.
const written = 20 * time.Second

func oneWatcher(server *server) error   { return writeToWatch(server, 1, 100) }
func manyWatchers(server *server) error { return writeToWatch(server, 100, 500) }

// writeToWatch measures from sending a create to the event of it at each of so many watchers, each with a connection of its own,
// at so many creates a second. The time of sending is part of the name.
func writeToWatch(server *server, watchers, rate int) error {
	target, done, err := server.in("watch", configMaps)
	if err != nil {
		return err
	}
	defer done()
	if err := server.connect(connections + watchers); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	count := rate * int(written/time.Second)
	var all sync.WaitGroup
	times := make([][]time.Duration, watchers)
	for watcher := range watchers {
		all.Add(1)
		left := count
		err := server.watch(ctx, connections+watcher, target.path+"?watch=true&labelSelector=app%3Dload&timeoutSeconds=300", func(line []byte) {
			sent, known := sentAt(line)
			if !known {
				return
			}
			times[watcher] = append(times[watcher], time.Since(sent))
			if left--; left == 0 {
				all.Done()
			}
		})
		if err != nil {
			return err
		}
	}
	begin := time.Now()
	if err := atRate(count, rate, func(connection, number int) error {
		name := fmt.Sprintf("%s%d-%d", sentMark, time.Now().UnixNano(), number)
		_, err := server.call(connection, "POST", target.path, configMap(name, 800))
		return err
	}); err != nil {
		return err
	}
	took := time.Since(begin)
	if !within(ctx, all.Wait) {
		return fmt.Errorf("not every watcher saw all %d events", count)
	}
	var merged []time.Duration
	for _, some := range times {
		merged = append(merged, some...)
	}
	fmt.Printf("write to watch, %d watchers, %d writes/s (%.0f were done): %s\n", watchers, rate, float64(count)/took.Seconds(), percentiles(merged))
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

// atRate starts work so many times a second; what takes long delays nothing until all connections are busy.
func atRate(count, rate int, work func(connection, number int) error) error {
	begin := time.Now()
	_, _, err := crowd{connections, 1}.each(count, func(connection, number int) error {
		time.Sleep(time.Until(begin.Add(time.Duration(number) * time.Second / time.Duration(rate))))
		return work(connection, number)
	})
	return err
}

// within waits for something, but no longer than the context lives.
func within(ctx context.Context, wait func()) bool {
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
