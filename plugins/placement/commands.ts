import type { CommandDecl, Section } from '../../kernel/index.js'
import { sections } from './sections.js'
import type { StoppedEntry, WaitingEntry } from './sections.js'

const text = { type: 'string' } as const
const done = { type: 'object', required: ['changed'], properties: { changed: { type: 'boolean' } } } as const
const args = <const P extends object>(properties: P) =>
  ({ type: 'object', additionalProperties: false, required: Object.keys(properties), properties }) as const

/** Decisions about what is to be there: only the master makes them. Each may be repeated. */
export const commands = {
  wait: {
    summary: 'Has an instance wait for a place; one that waits already stays as it is.',
    args: args({ id: text, entry: sections.waiting.value }),
    result: done
  },
  note: {
    summary: 'Says why an instance waits; nothing happens when it waits no more.',
    args: args({ id: text, reason: text, message: text }),
    result: done
  },
  unwait: {
    summary: 'Has an instance wait no more; nothing happens when it does not.',
    args: args({ id: text }),
    result: done
  },
  stop: {
    summary: 'Keeps a model from being placed by itself, and ends its waiting for that.',
    args: args({ modelId: text, since: text }),
    result: done
  },
  unstop: {
    summary: 'Lets a model be placed by itself again.',
    args: args({ modelId: text }),
    result: done
  }
} as const satisfies Record<string, CommandDecl>

export interface CommandParts {
  waiting: Section<WaitingEntry>
  stopped: Section<StoppedEntry>
  /** An instance waits from now on. */
  waits (id: string, entry: WaitingEntry): void
}

/** Whether the command changed anything. */
export interface Done { changed: boolean }

/** What the master does with the commands. */
export function commandHandlers ({ waiting, stopped, waits }: CommandParts): {
  wait (args: { id: string, entry: WaitingEntry }): Done
  note (args: { id: string, reason: string, message: string }): Done
  unwait (args: { id: string }): Done
  stop (args: { modelId: string, since: string }): Done
  unstop (args: { modelId: string }): Done
} {
  return {
    wait ({ id, entry }) {
      if (waiting.get(id) !== undefined) return { changed: false }
      waiting.put(id, entry)
      waits(id, entry)
      return { changed: true }
    },
    note ({ id, reason, message }) {
      const entry = waiting.get(id)
      if (entry === undefined || entry.reason === reason) return { changed: false }
      waiting.put(id, { ...entry, reason, message })
      return { changed: true }
    },
    unwait ({ id }) {
      const changed = waiting.get(id) !== undefined
      if (changed) waiting.remove(id)
      return { changed }
    },
    stop ({ modelId, since }) {
      for (const { key, value } of [...waiting.entries()]) {
        if (value.modelId === modelId && value.intent.origin === 'autoplace') waiting.remove(key)
      }
      const changed = stopped.get(modelId) === undefined
      if (changed) stopped.put(modelId, { since })
      return { changed }
    },
    unstop ({ modelId }) {
      const changed = stopped.get(modelId) !== undefined
      if (changed) stopped.remove(modelId)
      return { changed }
    }
  }
}
