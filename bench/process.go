package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"
)

// A session is what a process of this program does for another one: it says first, answers each line of its input, and
// closes when that ends.
type session struct {
	first  any
	answer func(line []byte) (any, error)
	close  func() // may be nil
}

// tasks open the sessions of processes whose arguments are the word task, the name of one of them and its argument in JSON.
var tasks = map[string]func(ctx context.Context, argument []byte) (session, error){
	"serve": serve, "serve way": serveWay, "load": load, "row": measureRow,
}

// asTask runs the task that args name, if they name one, until in ends.
func asTask(ctx context.Context, args []string, in io.Reader, out io.Writer) (ran bool, err error) {
	if len(args) != 3 || args[0] != "task" {
		return false, nil
	}
	reply := json.NewEncoder(out)
	respond := func(value any, failed error) error {
		if failed != nil {
			return reply.Encode(response{Error: failed.Error()})
		}
		text, err := json.Marshal(value)
		return errors.Join(err, reply.Encode(response{Value: text}))
	}
	s, err := tasks[args[1]](ctx, []byte(args[2]))
	if s.close != nil {
		defer s.close()
	}
	if err = errors.Join(err, respond(s.first, err)); err != nil {
		return true, err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if err := respond(s.answer(lines.Bytes())); err != nil {
			return true, err
		}
	}
	return true, lines.Err()
}

// A response is a line of the output of a task.
type response struct {
	Value json.RawMessage `json:",omitempty"`
	Error string          `json:",omitempty"`
}

// A process is a task in a process of its own.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// A program is this one or another version of it, and the directory of its sources. A command may run it, with
// environment variables of its own.
type program struct {
	path, dir string
	under     []string // the command and its arguments; empty: the program runs by itself
	env       []string
}

// thisProgram returns this program, which runs in the directory of its sources.
func thisProgram() (program, error) {
	path, err := os.Executable()
	return program{path: path}, err
}

// start runs a task of a program and sets first, unless it is nil, to what the process says first. The process ends
// with ctx at the latest.
func start(ctx context.Context, of program, task string, argument, first any) (*process, error) {
	text, err := json.Marshal(argument)
	if err != nil {
		return nil, err
	}
	args := slices.Concat(of.under, []string{of.path, "task", task, string(text)})
	p := &process{command: exec.CommandContext(ctx, args[0], args[1:]...)}
	p.command.Dir, p.command.Stderr, p.command.Env = of.dir, os.Stderr, append(os.Environ(), of.env...)
	p.command.Cancel = func() error { return p.in.Close() }
	p.command.WaitDelay = 10 * time.Second
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, json.NewDecoder(out)
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if err := p.receive(first); err != nil {
		p.stop()
		return nil, fmt.Errorf("process %s: %w", task, err)
	}
	return p, nil
}

// call sends a line and sets answer to what the process answers.
func (p *process) call(line, answer any) error {
	if err := json.NewEncoder(p.in).Encode(line); err != nil {
		return err
	}
	return p.receive(answer)
}

// entry returns a measure that the process, which measures a row, makes of its n-th entry.
func (p *process) entry(n int) measure {
	return func() (s sample, err error) {
		err = p.call(n, &s)
		return s, err
	}
}

func (p *process) receive(value any) error {
	var r response
	if err := p.out.Decode(&r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	if value == nil {
		return nil
	}
	return json.Unmarshal(r.Value, value)
}

// stop ends the process and waits until it has ended those that it started.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.command.Wait()
}
