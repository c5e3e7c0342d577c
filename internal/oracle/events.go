package oracle

import "container/heap"

// events runs functions in the order of their instants. Functions with the same instant run in the order they were added.
type events struct {
	now   int64
	added int
	queue eventQueue
}

type event struct {
	at    int64
	order int
	do    func()
}

func (e *events) at(at int64, do func()) {
	e.added++
	heap.Push(&e.queue, event{max(at, e.now), e.added, do})
}

func (e *events) after(d int64, do func()) { e.at(e.now+d, do) }

// advance moves now on by d and runs the events until then.
func (e *events) advance(d int64) {
	end := e.now + d
	for len(e.queue) > 0 && e.queue[0].at <= end {
		next := heap.Pop(&e.queue).(event)
		e.now = next.at
		next.do()
	}
	e.now = end
}

type eventQueue []event

func (q eventQueue) Len() int      { return len(q) }
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }

func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}

func (q *eventQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
