import type { Caller, Clock, EngineChunk } from '../../../kernel/index.js'
import type { RunnerSet } from '../instances/runner-set.js'
import type { EndedTask, Route, RunnerWork, TerminalStatus } from '../service.js'

/** Finished tasks stay visible in /state for this long, and at most this many of them. */
export const TASK_LINGER_MS = 30_000
export const TASKS_FINISHED_MAX = 64
/** A task that was named but never opened within this time counts as timed out. */
export const TASK_PENDING_MS = 60_000

export type TaskStatus = 'Pending' | 'Running' | TerminalStatus

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
export interface TaskRequester {
  caller: Caller | null
  /** Install id of the node where the request entered; null when it is this one. */
  member: string | null
}

export const hasEnded = (status: TaskStatus): boolean => status !== 'Pending' && status !== 'Running'

interface Entry {
  readonly task: Task
  readonly runnerId: string
  readonly asker: TaskRequester
  /** Somebody reads it: while it is pending it waits for its runner. */
  opened: boolean
  /** When it last changed, and the number of that change among those of all tasks. */
  readonly changedMono: number
  readonly change: number
}

const NOBODY: TaskRequester = { caller: null, member: null }
/** The key of this node among those that ask. */
const HERE = ''

/**
 * Tasks in memory: either those this node serves or those it has routed to other nodes. A task gets exactly
 * one terminal status; finished tasks stay visible for 30 s. `mono` is monotonic milliseconds; `changed` is
 * called after each change of a task.
 */
export class TaskTable {
  readonly #mono: () => number
  readonly #changed: (task: Task, runnerId: string) => void
  /** Tasks without and with a terminal status, each in order of last change. */
  readonly #live = new Map<string, Entry>()
  readonly #ended = new Map<string, Entry>()
  /** Number of tasks without a terminal status, by runner and by the node that asked. */
  readonly #open = new Map<string, Map<string, number>>()
  #changes = 0

  constructor (mono: () => number, changed: (task: Task, runnerId: string) => void = () => {}) {
    this.#mono = mono
    this.#changed = changed
  }

  add (task: Omit<Task, 'status'>, runnerId: string, asker: TaskRequester = NOBODY): void {
    this.#sweep()
    this.#count(runnerId, asker, 1)
    this.#enter(this.#live, { runnerId, asker, opened: false }, { ...task, status: 'Pending' })
  }

  /** Its reader is there. False when the task is unknown, already open or over. */
  open (taskId: string): boolean {
    this.#sweep()
    const entry = this.#live.get(taskId)
    if (entry?.opened !== false) return false
    entry.opened = true
    return true
  }

  /** Pending becomes Running. False when the task is unknown, already running or over. */
  start (taskId: string): boolean {
    this.#sweep()
    const entry = this.#live.get(taskId)
    if (entry?.task.status !== 'Pending') return false
    this.#live.delete(taskId)
    this.#enter(this.#live, entry, { ...entry.task, status: 'Running' })
    return true
  }

  /** Sets a task's terminal status. False, and no change, when it has one already or is unknown. */
  finish (taskId: string, status: TerminalStatus): boolean {
    const entry = this.#live.get(taskId)
    if (entry === undefined) return false
    this.#live.delete(taskId)
    this.#count(entry.runnerId, entry.asker, -1)
    this.#enter(this.#ended, entry, { ...entry.task, status })
    return true
  }

  get (taskId: string): Task | undefined {
    return this.#entry(taskId)?.task
  }

  /** Who asked for a task; nobody where it is unknown. */
  askerOf (taskId: string): TaskRequester { return this.#entry(taskId)?.asker ?? NOBODY }

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
    yield * this.#live.values()
    yield * this.#ended.values()
  }

  #entry (taskId: string): Entry | undefined { return this.#live.get(taskId) ?? this.#ended.get(taskId) }

  #enter (
    into: Map<string, Entry>, { runnerId, asker, opened }: Pick<Entry, 'runnerId' | 'asker' | 'opened'>,
    task: Task
  ): void {
    const change = ++this.#changes
    into.set(task.taskId, { task, runnerId, asker, opened, changedMono: this.#mono(), change })
    this.#changed(task, runnerId)
  }

  #count (runnerId: string, asker: TaskRequester, by: number): void {
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
    for (const [taskId, { task, changedMono, opened }] of this.#live) {
      if (now - changedMono < TASK_PENDING_MS) break
      if (task.status === 'Pending' && !opened) this.finish(taskId, 'TimedOut')
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

/** Passes finished tasks to the subscribers, such as metrics. */
export class TaskWatchers {
  readonly #clock: Clock
  readonly #nodeId: string
  readonly #listeners = new Set<(task: EndedTask) => void>()

  /** `nodeId` is this node's. */
  constructor (clock: Clock, nodeId: string) {
    this.#clock = clock
    this.#nodeId = nodeId
  }

  /** Undefined while there is no subscriber: then a task is not measured. */
  begin ({ taskId, modelId, nodeId }: Route, tasks: TaskTable): TaskWatch | undefined {
    if (this.#listeners.size === 0) return undefined
    const capability = tasks.get(taskId)?.capability ?? ''
    const entered = tasks.askerOf(taskId).member === null
    const about = { taskId, modelId, capability, entered, served: nodeId === this.#nodeId }
    return new TaskWatch(about, this.#clock, (ended) => { for (const fn of this.#listeners) fn(ended) })
  }

  onTask (fn: (task: EndedTask) => void): () => void {
    this.#listeners.add(fn)
    return () => { this.#listeners.delete(fn) }
  }
}

/** The work of this node's runners, for other plugins. */
export function runnerWork (
  watchers: Pick<TaskWatchers, 'onTask'>, fleet: Pick<RunnerSet, 'get'>
): RunnerWork {
  return {
    onTask: (fn) => watchers.onTask(fn),
    async cancel (runnerId, graceMs) {
      const member = fleet.get(runnerId)
      if (member === undefined) return null
      return await member.supervisor?.cancelTasks(graceMs) ?? { taskIds: [], restarted: false }
    }
  }
}

/** Token counts that an engine sends with its last chunk. */
interface Usage {
  prompt_tokens?: unknown
  completion_tokens?: unknown
  prompt_tokens_details?: { cached_tokens?: unknown } | null
}

type About = Pick<EndedTask, 'taskId' | 'modelId' | 'capability' | 'entered' | 'served'>

/** Measures one task by its chunks: times, tokens and seconds of sound; never their content. */
class TaskWatch {
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
    // A chunk without choices says that the engine has accepted the request; it is no part of the answer.
    const { choices } = payload
    if (this.#firstMs === null && !(Array.isArray(choices) && choices.length === 0)) {
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
      cached: Math.max(cached, countOf(usage.prompt_tokens_details?.cached_tokens)),
      generated: generated + countOf(usage.completion_tokens)
    }
  }
}

/** Third-party engines may send anything. */
const countOf = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) > 0 ? value as number : 0
