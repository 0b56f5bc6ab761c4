import type { Caller } from '../../../kernel/index.js'
import { TASK_LINGER_MS, TASK_PENDING_MS, TASKS_FINISHED_MAX } from '../limits.js'

export type TaskStatus = 'Pending' | 'Running' | 'Complete' | 'TimedOut' | 'Failed' | 'Cancelled'
export type TerminalStatus = Exclude<TaskStatus, 'Pending' | 'Running'>

/** A task as /state shows it; nothing of the request itself is kept. */
export interface Task {
  taskId: string
  commandId: string
  instanceId: string
  modelId: string
  capability: string
  status: TaskStatus
  createdAt: string
}

/** Who wants a task done. */
export interface Asker {
  caller: Caller | null
  /** Install id of the node where the request entered; null when it is this one. */
  member: string | null
}

/** It has its terminal status. */
export const isOver = (status: TaskStatus): boolean => status !== 'Pending' && status !== 'Running'

interface Entry {
  task: Task
  runnerId: string
  asker: Asker
  changedMono: number
  /** Place in the order of all changes. */
  change: number
}

const NOBODY: Asker = { caller: null, member: null }
/** Stands for this node among those that ask. */
const HERE = ''

/**
 * Tasks, in memory: those this node serves, or those it has given to others. Each gets exactly one terminal
 * status, guarded here; finished ones stay visible for a moment. `mono` is monotonic milliseconds; `changed`
 * is called after each change of a task. Every question costs the same however many tasks there are, apart
 * from those for all of them.
 */
export class TaskTable {
  readonly #mono: () => number
  readonly #changed: (task: Task, runnerId: string) => void
  /** By status, each in order of last change. */
  readonly #pending = new Map<string, Entry>()
  readonly #running = new Map<string, Entry>()
  readonly #over = new Map<string, Entry>()
  /** Open tasks by runner and by the node that asked. */
  readonly #open = new Map<string, Map<string, number>>()
  #changes = 0

  constructor (mono: () => number, changed: (task: Task, runnerId: string) => void = () => {}) {
    this.#mono = mono
    this.#changed = changed
  }

  /** Enters a new task as Pending. */
  add (task: Omit<Task, 'status'>, runnerId: string, asker: Asker = NOBODY): void {
    this.#sweep()
    const entry: Entry = {
      task: { ...task, status: 'Pending' }, runnerId, asker, changedMono: 0, change: 0
    }
    this.#count(entry, 1)
    this.#enter(this.#pending, entry)
  }

  /** Pending becomes Running. False when the task is unknown, already running or over. */
  start (taskId: string): boolean {
    this.#sweep()
    const entry = this.#pending.get(taskId)
    if (entry === undefined) return false
    this.#pending.delete(taskId)
    this.#enter(this.#running, { ...entry, task: { ...entry.task, status: 'Running' } })
    return true
  }

  /** Gives a task its terminal status. False, and no change, when it has one or is unknown. */
  finish (taskId: string, status: TerminalStatus): boolean {
    const entry = this.#pending.get(taskId) ?? this.#running.get(taskId)
    if (entry === undefined) return false
    this.#pending.delete(taskId)
    this.#running.delete(taskId)
    this.#count(entry, -1)
    this.#enter(this.#over, { ...entry, task: { ...entry.task, status } })
    return true
  }

  get (taskId: string): Task | undefined {
    return this.#entry(taskId)?.task
  }

  /** Who asked for a task; null when that is not known. */
  callerOf (taskId: string): Caller | null {
    return this.#entry(taskId)?.asker.caller ?? null
  }

  /** False for a task that another node has passed on. */
  enteredHere (taskId: string): boolean { return this.askerOf(taskId) === null }

  /** Install id of the node that has passed a task on; null when it entered here, or is unknown. */
  askerOf (taskId: string): string | null {
    return this.#entry(taskId)?.asker.member ?? null
  }

  /** Tasks of a runner that have no terminal status yet. */
  outstanding (runnerId: string): number {
    this.#sweep()
    return sum(this.#open.get(runnerId)?.values() ?? [])
  }

  /** Open tasks by runner, without those that the node `member` asked for: it knows of them. */
  loads (member: string): Record<string, number> {
    const loads = [...this.#open].map(([runnerId, byAsker]): [string, number] =>
      [runnerId, sum(byAsker.values()) - (byAsker.get(member) ?? 0)])
    return Object.fromEntries(loads.filter(([, open]) => open > 0))
  }

  /** Every task there is. */
  all (): Task[] {
    this.#sweep()
    return [...this.#entries()].map(({ task }) => task)
  }

  /**
   * The first `most` tasks that changed after the change number `since` (0: all), oldest change first;
   * `next` is where to go on.
   */
  changedSince (since: number, most: number): { tasks: Task[], next: number, more: boolean } {
    this.#sweep()
    if (since === this.#changes) return { tasks: [], next: since, more: false }
    const found = [...this.#entries()].filter(({ change }) => change > since)
      .sort((a, b) => a.change - b.change)
    const taken = found.slice(0, most)
    const more = found.length > most
    return { tasks: taken.map(({ task }) => task), next: more ? taken.at(-1)!.change : this.#changes, more }
  }

  * #entries (): Iterable<Entry> {
    yield * this.#pending.values()
    yield * this.#running.values()
    yield * this.#over.values()
  }

  #entry (taskId: string): Entry | undefined {
    return this.#pending.get(taskId) ?? this.#running.get(taskId) ?? this.#over.get(taskId)
  }

  #enter (into: Map<string, Entry>, entry: Entry): void {
    entry.changedMono = this.#mono()
    entry.change = ++this.#changes
    into.set(entry.task.taskId, entry)
    this.#changed(entry.task, entry.runnerId)
  }

  #count ({ runnerId, asker }: Entry, by: number): void {
    const byAsker = this.#open.get(runnerId) ?? new Map<string, number>()
    const who = asker.member ?? HERE
    const open = (byAsker.get(who) ?? 0) + by
    if (open > 0) byAsker.set(who, open)
    else byAsker.delete(who)
    if (byAsker.size > 0) this.#open.set(runnerId, byAsker)
    else this.#open.delete(runnerId)
  }

  /** Times out what was never opened and forgets what is over. */
  #sweep (): void {
    const now = this.#mono()
    for (const [taskId, { changedMono }] of this.#pending) {
      if (now - changedMono < TASK_PENDING_MS) break
      this.finish(taskId, 'TimedOut')
    }
    for (const [taskId, { changedMono }] of this.#over) {
      if (this.#over.size <= TASKS_FINISHED_MAX && now - changedMono < TASK_LINGER_MS) break
      this.#over.delete(taskId)
    }
  }
}

function sum (numbers: Iterable<number>): number {
  let total = 0
  for (const number of numbers) total += number
  return total
}
