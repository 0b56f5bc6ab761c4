import type { Caller, Clock, EngineChunk } from '../../../kernel/index.js'
import type { Fleet } from '../instances/fleet.js'
import type { EndedTask, Route, RunnerWork } from '../service.js'

/** Finished tasks stay visible in /state for this long, and at most this many of them. */
export const TASK_LINGER_MS = 30_000
export const TASKS_FINISHED_MAX = 64
/** A task that was named but never opened within this time counts as timed out. */
export const TASK_PENDING_MS = 60_000

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

/** True for a terminal status. */
export const hasEnded = (status: TaskStatus): boolean => status !== 'Pending' && status !== 'Running'

interface Entry {
  task: Task
  runnerId: string
  asker: Asker
  changedMono: number
  /** Place in the order of all changes. */
  change: number
}

const NOBODY: Asker = { caller: null, member: null }
/** The key of this node among those that ask. */
const HERE = ''

/**
 * Tasks in memory: either those this node serves or those it has routed to other nodes. A task gets exactly
 * one terminal status; finished tasks stay visible for 30 s. `mono` is monotonic milliseconds; `changed` is
 * called after each change of a task. Look-ups take constant time.
 */
export class TaskTable {
  readonly #mono: () => number
  readonly #changed: (task: Task, runnerId: string) => void
  /** By status, each in order of last change. */
  readonly #pending = new Map<string, Entry>()
  readonly #running = new Map<string, Entry>()
  readonly #ended = new Map<string, Entry>()
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

  /** Sets a task's terminal status. False, and no change, when it has one already or is unknown. */
  finish (taskId: string, status: TerminalStatus): boolean {
    const entry = this.#pending.get(taskId) ?? this.#running.get(taskId)
    if (entry === undefined) return false
    this.#pending.delete(taskId)
    this.#running.delete(taskId)
    this.#count(entry, -1)
    this.#enter(this.#ended, { ...entry, task: { ...entry.task, status } })
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

  /** Open tasks by runner, without those that came from the node `member`, which counts them itself. */
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
   * The first `most` tasks that changed after change number `since` (0: all), oldest change first; `next` is
   * the number to continue from.
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
    yield * this.#ended.values()
  }

  #entry (taskId: string): Entry | undefined {
    return this.#pending.get(taskId) ?? this.#running.get(taskId) ?? this.#ended.get(taskId)
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

  /** Times out tasks that were never opened and drops finished ones. */
  #sweep (): void {
    const now = this.#mono()
    for (const [taskId, { changedMono }] of this.#pending) {
      if (now - changedMono < TASK_PENDING_MS) break
      this.finish(taskId, 'TimedOut')
    }
    for (const [taskId, { changedMono }] of this.#ended) {
      if (this.#ended.size <= TASKS_FINISHED_MAX && now - changedMono < TASK_LINGER_MS) break
      this.#ended.delete(taskId)
    }
  }
}

function sum (numbers: Iterable<number>): number {
  let total = 0
  for (const number of numbers) total += number
  return total
}

/** Measures one task by its chunks: times, tokens and seconds of sound; never their content. */
export interface TaskWatch {
  see (chunk: EngineChunk): void
  end (status: TerminalStatus): void
}

/** Passes finished tasks to the subscribers, such as metrics. */
export interface TaskWatchers {
  /** Undefined while there is no subscriber: then a task is not measured. */
  begin (route: Route, tasks: TaskTable): TaskWatch | undefined
  onTask (fn: (task: EndedTask) => void): () => void
}

/** `nodeId` is this node's. */
export function createTaskWatchers (clock: Clock, nodeId: string): TaskWatchers {
  const listeners = new Set<(task: EndedTask) => void>()
  return {
    begin (route, tasks) {
      if (listeners.size === 0) return undefined
      const { taskId, modelId } = route
      const about = {
        taskId, modelId,
        capability: tasks.get(taskId)?.capability ?? '',
        entered: tasks.enteredHere(taskId),
        served: route.nodeId === nodeId
      }
      return new Watch(about, clock, (ended) => { for (const fn of listeners) fn(ended) })
    },
    onTask (fn) {
      listeners.add(fn)
      return () => { listeners.delete(fn) }
    }
  }
}

/** The work of this node's runners, for other plugins. */
export function runnerWork (
  { onTask }: Pick<TaskWatchers, 'onTask'>, fleet: Pick<Fleet, 'get'>
): RunnerWork {
  return {
    onTask,
    async cancel (runnerId, graceMs) {
      const member = fleet.get(runnerId)
      if (member === undefined) return null
      return await member.supervisor?.cancelTasks(graceMs) ?? { taskIds: [], restarted: false }
    }
  }
}

/** Token counts that an engine sends with its last chunk. */
interface Usage { prompt_tokens?: unknown, cached_tokens?: unknown, completion_tokens?: unknown }

type About = Pick<EndedTask, 'taskId' | 'modelId' | 'capability' | 'entered' | 'served'>

class Watch implements TaskWatch {
  readonly #about: About
  readonly #clock: Clock
  readonly #tell: (task: EndedTask) => void
  readonly #since: number
  #firstMs: number | null = null
  #tokens: EndedTask['tokens'] = null
  #audioSeconds = 0

  constructor (about: About, clock: Clock, tell: (task: EndedTask) => void) {
    this.#about = about
    this.#clock = clock
    this.#tell = tell
    this.#since = clock.mono()
  }

  see ({ payload, media, timing }: EngineChunk): void {
    // `admitted` says that the engine has accepted the request; it is not part of the answer.
    if (this.#firstMs === null && payload['kind'] !== 'admitted') {
      this.#firstMs = this.#clock.mono() - this.#since
    }
    if (media !== undefined) this.#audioSeconds += timing?.durationSeconds ?? 0
    if (payload['usage'] !== undefined) this.#count(payload['usage'] as Usage)
  }

  end (status: TerminalStatus): void {
    this.#tell({
      ...this.#about,
      status,
      seconds: (this.#clock.mono() - this.#since) / 1000,
      firstSeconds: this.#firstMs === null ? null : this.#firstMs / 1000,
      tokens: this.#tokens,
      audioSeconds: this.#audioSeconds
    })
  }

  /** Several answers to one prompt each report its tokens; they are counted once. */
  #count (usage: Usage): void {
    const { prompt, cached, generated } = this.#tokens ?? { prompt: 0, cached: 0, generated: 0 }
    this.#tokens = {
      prompt: Math.max(prompt, countOf(usage.prompt_tokens)),
      cached: Math.max(cached, countOf(usage.cached_tokens)),
      generated: generated + countOf(usage.completion_tokens)
    }
  }
}

/** Third-party engines may send anything. */
const countOf = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) > 0 ? value as number : 0
