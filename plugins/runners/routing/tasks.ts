import { openObject, type Caller, type Clock, type EngineChunk, type FromSchema }
  from '../../../kernel/index.js'
import type { EndedTask, Route, RouteQuery, RunnerWork, TerminalStatus } from '../service.js'

/** Limits on finished tasks in /state: the time in ms for which they stay, and their number. */
export const TASK_LINGER_MS = 30_000
export const TASKS_FINISHED_MAX = 64
/** Milliseconds after which a task that was never opened times out. */
export const TASK_PENDING_MS = 60_000

const text = { type: 'string', maxLength: 256 } as const
/** A task in /state; it contains no part of the request itself. */
export const taskSchema = openObject({
  taskId: text, commandId: text, instanceId: text, modelId: text, capability: text,
  status: { enum: ['Pending', 'Running', 'Complete', 'TimedOut', 'Failed', 'Cancelled'] },
  createdAt: text
})
export type Task = FromSchema<typeof taskSchema>
export type TaskStatus = Task['status']

export interface TaskRequester {
  caller: Caller | null
  /** Install id of the node that received the request; null for this node. */
  member: string | null
}

export const hasEnded = (status: TaskStatus): boolean => status !== 'Pending' && status !== 'Running'

interface Entry {
  readonly task: Task
  readonly runnerId: string
  readonly requester: TaskRequester
  /** True once the task has a reader; a pending task with a reader waits for its runner. */
  opened: boolean
  /** Time of the task's last change, and that change's number among the changes to all tasks. */
  readonly changedMono: number
  readonly change: number
}

const NOBODY: TaskRequester = { caller: null, member: null }

/**
 * Tasks in memory: either those that this node serves or those routed to other nodes. A task gets exactly one
 * terminal status; finished tasks stay visible for 30 s. `mono` returns monotonic ms; `changed` is called
 * after each change.
 */
export class TaskTable {
  readonly #mono: () => number
  readonly #changed: (task: Task, runnerId: string) => void
  /** Tasks without a terminal status, and tasks with one, each in the order of their last change. */
  readonly #live = new Map<string, Entry>()
  readonly #ended = new Map<string, Entry>()
  #changes = 0

  constructor (mono: () => number, changed: (task: Task, runnerId: string) => void = () => {}) {
    this.#mono = mono
    this.#changed = changed
  }

  add (task: Omit<Task, 'status'>, runnerId: string, requester: TaskRequester = NOBODY): void {
    this.#sweep()
    this.#enter(this.#live, { runnerId, requester, opened: false }, { ...task, status: 'Pending' })
  }

  /** Call when the reader starts. False if the task is unknown, already open or finished. */
  open (taskId: string): boolean {
    this.#sweep()
    const entry = this.#live.get(taskId)
    if (entry?.opened !== false) return false
    entry.opened = true
    return true
  }

  /** Changes Pending to Running. False if the task is unknown, already running or finished. */
  start (taskId: string): boolean {
    this.#sweep()
    const entry = this.#live.get(taskId)
    if (entry?.task.status !== 'Pending') return false
    this.#live.delete(taskId)
    this.#enter(this.#live, entry, { ...entry.task, status: 'Running' })
    return true
  }

  /** Sets a task's terminal status. Returns false and changes nothing if it has one or is unknown. */
  finish (taskId: string, status: TerminalStatus): boolean {
    const entry = this.#live.get(taskId)
    if (entry === undefined) return false
    this.#live.delete(taskId)
    this.#enter(this.#ended, entry, { ...entry.task, status })
    return true
  }

  get (taskId: string): Task | undefined { return this.#entry(taskId)?.task }

  requesterOf (taskId: string): TaskRequester { return this.#entry(taskId)?.requester ?? NOBODY }

  /** Number of a runner's tasks without a terminal status. */
  outstanding (runnerId: string): number {
    this.#sweep()
    let open = 0
    for (const entry of this.#live.values()) if (entry.runnerId === runnerId) open += 1
    return open
  }

  /** Number of open tasks by runner, without those requested by node `member`, which counts them itself. */
  loads (member: string): Record<string, number> {
    const loads: Record<string, number> = {}
    for (const { runnerId, requester } of this.#live.values()) {
      if (requester.member !== member) loads[runnerId] = (loads[runnerId] ?? 0) + 1
    }
    return loads
  }

  all (): Task[] {
    this.#sweep()
    return [...this.#entries()].map(({ task }) => task)
  }

  /**
   * The first `most` tasks that changed after change number `since` (0: all), oldest change first; `next` is
   * the number from which to continue.
   */
  changedSince (since: number, most: number): { tasks: Task[], next: number, more: boolean } {
    this.#sweep()
    if (since === this.#changes) return { tasks: [], next: since, more: false }
    const found = [...this.#entries()].filter(({ change }) => change > since)
      .sort((a, b) => a.change - b.change)
    const page = found.slice(0, most)
    const more = found.length > most
    return { tasks: page.map(({ task }) => task), next: more ? page.at(-1)!.change : this.#changes, more }
  }

  * #entries (): Iterable<Entry> {
    yield * this.#live.values()
    yield * this.#ended.values()
  }

  #entry (taskId: string): Entry | undefined { return this.#live.get(taskId) ?? this.#ended.get(taskId) }

  #enter (
    into: Map<string, Entry>,
    { runnerId, requester, opened }: Pick<Entry, 'runnerId' | 'requester' | 'opened'>, task: Task
  ): void {
    const change = ++this.#changes
    into.set(task.taskId, { task, runnerId, requester, opened, changedMono: this.#mono(), change })
    this.#changed(task, runnerId)
  }

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

export class TaskWatchers implements RunnerWork {
  readonly #clock: Clock
  readonly #nodeId: string
  readonly #listeners = new Set<(task: EndedTask) => void>()
  readonly #gates = new Set<(request: RouteQuery) => void>()

  constructor (clock: Clock, nodeId: string) {
    this.#clock = clock
    this.#nodeId = nodeId
  }

  /** Undefined without subscribers, in which case the task is not measured. */
  begin ({ taskId, modelId, nodeId }: Route, tasks: TaskTable): TaskWatch | undefined {
    const { capability = '', commandId = '' } = tasks.get(taskId) ?? {}
    const { caller, member } = tasks.requesterOf(taskId)
    return this.#begin({
      taskId, commandId, modelId, capability, callerId: caller?.id ?? '', entered: member === null,
      served: nodeId === this.#nodeId
    })
  }

  /** Like `begin`, for a virtual model. An answer that another model gives in its place is not reported. */
  beginVirtual ({ taskId, modelId }: Route, query: RouteQuery): TaskWatch | undefined {
    const { capability, commandId, caller: { id: callerId } } = query
    return this.#begin({ taskId, commandId, modelId, capability, callerId, entered: true, served: false },
      query.payload ?? {})
  }

  #begin (about: About, virtual: object | null = null): TaskWatch | undefined {
    if (this.#listeners.size === 0) return undefined
    return watchTask(about, virtual, this.#clock, (ended) => { for (const fn of this.#listeners) fn(ended) })
  }

  onTask (fn: (task: EndedTask) => void): () => void {
    this.#listeners.add(fn)
    return () => { this.#listeners.delete(fn) }
  }

  onRequest (fn: (request: RouteQuery) => void): () => void {
    this.#gates.add(fn)
    return () => { this.#gates.delete(fn) }
  }

  /** Throws the error of a listener that refuses the request. */
  admit (request: RouteQuery): void { for (const fn of this.#gates) fn(request) }
}

/** Token counts that an engine sends with its last chunk. */
interface Usage {
  prompt_tokens?: unknown
  completion_tokens?: unknown
  prompt_tokens_details?: { cached_tokens?: unknown } | null
}

type About = Pick<EndedTask,
  'taskId' | 'commandId' | 'callerId' | 'modelId' | 'capability' | 'entered' | 'served'>

export interface TaskWatch { see (chunk: EngineChunk): void, end (status: TerminalStatus): void }

const LETTERS_PER_TOKEN = 4
/** An estimate of a request's tokens, without data such as images. */
const promptTokens = (request: object): number => Math.ceil(JSON.stringify(request, (_, one: unknown) =>
  typeof one === 'string' && one.startsWith('data:') ? '' : one).length / LETTERS_PER_TOKEN)
const lettersIn = (choices: readonly Said[]): number =>
  choices.reduce((sum, { delta, text }) => sum + String(delta?.content ?? text ?? '').length, 0)
interface Said { delta?: { content?: unknown } | null, text?: unknown }

/**
 * Measures one task by its chunks: times, tokens and seconds of sound, but never their content. `virtual` is
 * the request to a virtual model, whose tokens are estimated if the answer ends before its server reports
 * them.
 */
function watchTask (
  about: About, virtual: object | null, clock: Clock, report: (task: EndedTask) => void
): TaskWatch {
  const since = clock.mono()
  const secondsSince = (): number => (clock.mono() - since) / 1000
  let firstSeconds: number | null = null
  let tokens: EndedTask['tokens'] = null
  let audioSeconds = 0
  let heardSeconds = 0
  let written = 0
  let letters = 0
  let replaced = false
  return {
    see ({ payload: { choices, usage, model, event, duration }, media, timing }) {
      // A chunk without choices only says that the engine accepted the request; it is not part of the answer.
      const isEmpty = Array.isArray(choices) && choices.length === 0
      if (!isEmpty) firstSeconds ??= secondsSince()
      if (media !== undefined) audioSeconds += timing?.durationSeconds ?? 0
      if (usage !== undefined) tokens = addUsage(tokens, usage as Usage)
      else if (Array.isArray(choices) && !isEmpty) {
        written++
        letters += lettersIn(choices as Said[])
      }
      if (event === 'done' && Number.isFinite(duration)) heardSeconds += duration as number
      replaced ||= virtual !== null && typeof model === 'string'
    },
    end (status) {
      if (replaced) return
      const isCut = virtual !== null && tokens === null && status === 'Cancelled'
      if (status !== 'Complete' && (isCut || written > (tokens?.generated ?? 0))) {
        const generated = Math.max(written, virtual === null ? 0 : Math.ceil(letters / LETTERS_PER_TOKEN))
        const prompt = virtual === null ? 0 : promptTokens(virtual)
        tokens = { prompt, cached: 0, ...tokens, generated }
      }
      report({
        ...about, status, seconds: secondsSince(), firstSeconds, tokens, audioSeconds, heardSeconds
      })
    }
  }
}

/** Counts prompt tokens once, although several answers to one prompt each report them. */
function addUsage (tokens: EndedTask['tokens'], usage: Usage): EndedTask['tokens'] {
  const { prompt, cached, generated } = tokens ?? { prompt: 0, cached: 0, generated: 0 }
  return {
    prompt: Math.max(prompt, countOf(usage.prompt_tokens)),
    cached: Math.max(cached, countOf(usage.prompt_tokens_details?.cached_tokens)),
    generated: generated + countOf(usage.completion_tokens)
  }
}

/** The value if it is a valid count, because third-party engines may send anything. */
const countOf = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) > 0 ? value as number : 0
