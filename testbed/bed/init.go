package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A unit is one executable file that is kept running.
type unit struct {
	name, path string
	started    time.Time
	due        time.Time
}

// initialize is the first process of the node: it starts every unit, starts it again when it ends, and buries orphans. It never
// returns; the bed ends when this process is killed, because the kernel then kills everything in its namespace.
func initialize(arguments []string) error {
	if err := arity(arguments, 1, "FOLDER"); err != nil {
		return err
	}
	entries, err := os.ReadDir(arguments[0])
	if err != nil {
		return err
	}
	running := map[int]*unit{}
	var waiting []*unit
	for _, entry := range entries {
		waiting = append(waiting, &unit{name: entry.Name(), path: filepath.Join(arguments[0], entry.Name())})
	}
	for {
		var later []*unit
		for _, unit := range waiting {
			if time.Now().Before(unit.due) {
				later = append(later, unit)
				continue
			}
			pid, err := unit.start()
			if err != nil {
				return err
			}
			running[pid] = unit
		}
		waiting = later
		var status syscall.WaitStatus
		options := 0
		if len(waiting) > 0 {
			options = syscall.WNOHANG
		}
		pid, err := syscall.Wait4(-1, &status, options, nil)
		if err != nil && err != syscall.EINTR && err != syscall.ECHILD {
			return err
		}
		if pid <= 0 {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if unit := running[pid]; unit != nil {
			delete(running, pid)
			fmt.Printf("%s %s ended: exit code %d, signal %d\n", time.Now().UTC().Format(time.RFC3339), unit.name, status.ExitStatus(), status.Signal())
			unit.due = time.Now()
			if time.Since(unit.started) < 2*time.Second {
				unit.due = unit.due.Add(time.Second)
			}
			waiting = append(waiting, unit)
		}
	}
}

// start runs the unit in a session of its own; what it prints goes to /var/log, its process ID to /run.
func (unit *unit) start() (int, error) {
	log, err := os.OpenFile("/var/log/"+unit.name+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	none, err := os.Open("/dev/null")
	if err != nil {
		return 0, err
	}
	defer none.Close()
	unit.started = time.Now()
	attributes := &os.ProcAttr{Files: []*os.File{none, log, log}, Sys: &syscall.SysProcAttr{Setsid: true}}
	process, err := os.StartProcess(unit.path, []string{unit.path}, attributes)
	if err != nil {
		return 0, err
	}
	return process.Pid, os.WriteFile("/run/"+unit.name+".pid", []byte(strconv.Itoa(process.Pid)+"\n"), 0o644)
}
