import type { Clock, EngineChunk } from '../../../kernel/index.js'
import type { Fleet } from '../instances/fleet.js'
import type { EndedTask, Route, RunnerWork } from '../service.js'
import type { TaskTable, TerminalStatus } from './tasks.js'

/** Looks at the chunks of one task as they pass; only their kinds, lengths and counts are noted. */
export interface TaskWatch {
  see (chunk: EngineChunk): void
  end (status: TerminalStatus): void
}

/** Those that want to hear of ended tasks, and the watches that tell them. */
export interface TaskWatchers {
  /** Undefined while nobody wants to hear of it: then a task costs nothing more. */
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

/** What an engine says of its counting with its last chunk. */
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
    // An engine that has taken a request in has not answered yet.
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

  /** Several answers to one prompt each count it; it was read once. */
  #count (usage: Usage): void {
    const { prompt, cached, generated } = this.#tokens ?? { prompt: 0, cached: 0, generated: 0 }
    this.#tokens = {
      prompt: Math.max(prompt, countOf(usage.prompt_tokens)),
      cached: Math.max(cached, countOf(usage.cached_tokens)),
      generated: generated + countOf(usage.completion_tokens)
    }
  }
}

/** Engines of others say what they like. */
const countOf = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) > 0 ? value as number : 0
