interface Due { readonly at: number, readonly order: number, readonly run: () => void }

const before = (a: Due, b: Due): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)

/** Virtual time: a binary heap of pending actions, ordered by time and then by insertion. */
export class Schedule {
  now = 0
  readonly #heap: Due[] = []
  #order = 0

  /** Runs `run` after `ms` of virtual time. */
  after (ms: number, run: () => void): void { this.at(this.now + ms, run) }

  at (at: number, run: () => void): void {
    const heap = this.#heap
    const due = { at, order: this.#order++, run }
    let i = heap.push(due) - 1
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!before(due, heap[parent]!)) break
      heap[i] = heap[parent]!
      i = parent
    }
    heap[i] = due
  }

  /** Runs all actions that are due by `end`, or until `stop` returns true. */
  run (end: number, stop: () => boolean = () => false): void {
    while (this.#heap.length > 0 && this.#heap[0]!.at <= end && !stop()) {
      const { at, run } = this.#pop()
      this.now = at
      run()
    }
    this.now = Math.max(this.now, end)
  }

  #pop (): Due {
    const heap = this.#heap
    const top = heap[0]!
    const last = heap.pop()!
    if (heap.length > 0) this.#sink(last)
    return top
  }

  #sink (due: Due): void {
    const heap = this.#heap
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++
      if (!before(heap[child]!, due)) break
      heap[i] = heap[child]!
      i = child
    }
    heap[i] = due
  }
}
