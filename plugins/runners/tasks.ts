import type { Caller } from '../../kernel/index.js'
import { TASK_LINGER_MS, TASK_PENDING_MS, TASKS_FINISHED_MAX } from './limits.js'

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

interface Entry {
  task: Task
  runnerId: string
  caller: Caller | null
  changedMono: number
}

/**
 * Tasks, in memory: those this node serves, or those it has given to others. Each gets exactly one terminal
 * status, guarded here; finished ones stay visible for a moment. `mono` is monotonic milliseconds.
 */
export class TaskTable {
  readonly #mono: () => number
  readonly #entries = new Map<string, Entry>()

  constructor (mono: () => number) {
    this.#mono = mono
  }

  /** Enters a new task as Pending. `caller`: who asks, where that is to be passed on. */
  add (task: Omit<Task, 'status'>, runnerId: string, caller: Caller | null = null): void {
    this.#sweep()
    this.#entries.set(task.taskId, {
      task: { ...task, status: 'Pending' },
      runnerId,
      caller,
      changedMono: this.#mono()
    })
  }

  /** Pending becomes Running. False when the task is unknown, already running or over. */
  start (taskId: string): boolean {
    this.#sweep()
    return this.#move(taskId, (status) => status === 'Pending', 'Running')
  }

  /** Gives a task its terminal status. False, and no change, when it has one or is unknown. */
  finish (taskId: string, status: TerminalStatus): boolean {
    return this.#move(taskId, (now) => now === 'Pending' || now === 'Running', status)
  }

  get (taskId: string): Task | undefined {
    return this.#entries.get(taskId)?.task
  }

  /** Who asked for a task; null when that is not known. */
  callerOf (taskId: string): Caller | null {
    return this.#entries.get(taskId)?.caller ?? null
  }

  /** Tasks of a runner that have no terminal status yet. */
  outstanding (runnerId: string): number {
    this.#sweep()
    let open = 0
    for (const entry of this.#entries.values()) if (entry.runnerId === runnerId && isOpen(entry)) open += 1
    return open
  }

  /** Everything /state shows, by id. */
  view (): Record<string, { Inference: Task }> {
    this.#sweep()
    return Object.fromEntries([...this.#entries].map(([id, { task }]) => [id, { Inference: task }]))
  }

  #move (taskId: string, allowed: (status: TaskStatus) => boolean, status: TaskStatus): boolean {
    const entry = this.#entries.get(taskId)
    if (entry === undefined || !allowed(entry.task.status)) return false
    this.#entries.delete(taskId)
    this.#entries.set(taskId, { ...entry, task: { ...entry.task, status }, changedMono: this.#mono() })
    return true
  }

  /** Times out what was never opened and forgets what is over; the map is in order of last change. */
  #sweep (): void {
    const now = this.#mono()
    for (const [id, { task, changedMono }] of [...this.#entries]) {
      if (task.status === 'Pending' && now - changedMono >= TASK_PENDING_MS) this.finish(id, 'TimedOut')
    }
    const finished = [...this.#entries].filter(([, entry]) => !isOpen(entry))
    finished.forEach(([id, { changedMono }], index) => {
      const excess = finished.length - index > TASKS_FINISHED_MAX
      if (excess || now - changedMono >= TASK_LINGER_MS) this.#entries.delete(id)
    })
  }
}

function isOpen ({ task }: Entry): boolean {
  return task.status === 'Pending' || task.status === 'Running'
}
