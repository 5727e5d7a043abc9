// Package notes writes down a client's operations, in the lines that penstock.testing.history reads.
package notes

import (
	"encoding/json"
	"os"
	"sync"
	"time"
)

// Line is a line of a history. What is not known yet is left out.
type Line map[string]any

// Notes are those of one client. Each line is with the operating system before the operation goes
// on.
type Notes struct {
	client string
	mutex  sync.Mutex
	file   *os.File
	count  int
}

// Open begins the notes of a client, in a file of their own.
func Open(client, path string) (*Notes, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &Notes{client: client, file: file}, nil
}

// Begin notes that an operation begins, and numbers it.
func (n *Notes) Begin(what Line) int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	op := n.count
	n.count++
	n.write(op, what)
	return op
}

// End notes how it ended, and what is known only now.
func (n *Notes) End(op int, outcome Line) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.write(op, outcome)
}

// Seen notes something that was asked for at began, and is seen now.
func (n *Notes) Seen(began time.Time, what Line) {
	what["began"], what["is"] = began.UnixNano(), "ok"
	n.Begin(what)
}

func (n *Notes) write(op int, what Line) {
	what["at"], what["client"], what["op"] = time.Now().UnixNano(), n.client, op
	data, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	if _, err := n.file.Write(append(data, '\n')); err != nil {
		panic(err)
	}
}
