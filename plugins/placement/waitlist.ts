import type { CommandDecl, Section, SectionDecl } from '../../kernel/index.js'
import { placement } from '../runners/service.js'
import type { PlacementIntent } from '../runners/service.js'

/** A wanted instance that has no place yet. Its key is the id of the lost instance, or a new id. */
export type WaitingEntry = {
  modelId: string
  intent: PlacementIntent
  /** The entry or instance that the lost instance itself replaced; null when it was the first. */
  replaces: string | null
  since: string
  /** Why it has no place: a stable word, and a sentence for people. */
  reason: string
  message: string
}

/** A model that an operator stopped: it is not placed by itself. */
export type StoppedEntry = { since: string }

/** A node that an operator drains: nothing is placed there, and what it runs moves away. */
export type DrainedEntry = { since: string, by: string }

/** Longest message an entry keeps, characters. */
export const MESSAGE_CHARS_MAX = 500

const text = { type: 'string' } as const

export const sections = {
  waiting: {
    writer: 'master',
    summary: 'Instances that are to be placed as soon as that is possible.',
    value: {
      type: 'object',
      additionalProperties: false,
      required: ['modelId', 'intent', 'replaces', 'since', 'reason', 'message'],
      properties: {
        modelId: text,
        intent: placement,
        replaces: { type: ['string', 'null'] },
        since: text,
        reason: text,
        message: { type: 'string', maxLength: 1000 }
      }
    }
  },
  stopped: {
    writer: 'master',
    summary: 'Models that an operator stopped, which are not placed by themselves any more.',
    value: { type: 'object', additionalProperties: false, required: ['since'], properties: { since: text } }
  },
  drainedNodes: {
    writer: 'master',
    summary: 'Nodes by install id that run no models until an operator lets them again.',
    value: {
      type: 'object', additionalProperties: false, required: ['since', 'by'],
      properties: { since: text, by: text }
    }
  }
} as const satisfies Record<string, SectionDecl>

const command = <const P extends object>(summary: string, properties: P) => ({
  summary,
  args: { type: 'object', additionalProperties: false, required: Object.keys(properties), properties },
  result: { type: 'object', required: ['changed'], properties: { changed: { type: 'boolean' } } }
} as const satisfies CommandDecl)

/** Changes of the sections, carried out by the master. Each is idempotent. */
export const commands = {
  wait: command('Has an instance wait for a place; one that waits already stays as it is.',
    { id: text, entry: sections.waiting.value }),
  note: command('Says why an instance waits; nothing happens when it waits no more.',
    { id: text, reason: text, message: text }),
  unwait: command('Has an instance wait no more; nothing happens when it does not.', { id: text }),
  stop: command('Keeps a model from being placed by itself, and ends its waiting for that.',
    { modelId: text, since: text }),
  unstop: command('Lets a model be placed by itself again.', { modelId: text }),
  drain: command('Has a node run no models.', { installId: text, since: text, by: text }),
  undrain: command('Lets a node run models again.', { installId: text })
}

export interface CommandParts {
  waiting: Section<WaitingEntry>
  stopped: Section<StoppedEntry>
  drainedNodes: Section<DrainedEntry>
  replaced (id: string): boolean
  waits (id: string, entry: WaitingEntry): void
}

export interface Done { changed: boolean }

export function commandHandlers ({ waiting, stopped, drainedNodes, replaced, waits }: CommandParts) {
  const remove = (section: Section<unknown>, key: string): Done => {
    const changed = section.get(key) !== undefined
    if (changed) section.remove(key)
    return { changed }
  }
  return {
    wait ({ id, entry }: { id: string, entry: WaitingEntry }): Done {
      // A late command of an earlier master must not place the instance a second time.
      if (waiting.get(id) !== undefined || replaced(id)) return { changed: false }
      waiting.put(id, entry)
      waits(id, entry)
      return { changed: true }
    },
    note ({ id, reason, message }: { id: string, reason: string, message: string }): Done {
      const entry = waiting.get(id)
      if (entry === undefined || entry.reason === reason) return { changed: false }
      waiting.put(id, { ...entry, reason, message })
      return { changed: true }
    },
    unwait: ({ id }: { id: string }) => remove(waiting, id),
    stop ({ modelId, since }: StoppedEntry & { modelId: string }): Done {
      for (const { key, value } of [...waiting.entries()]) {
        if (value.modelId === modelId && value.intent.origin === 'autoplace') waiting.remove(key)
      }
      const changed = stopped.get(modelId) === undefined
      if (changed) stopped.put(modelId, { since })
      return { changed }
    },
    unstop: ({ modelId }: { modelId: string }) => remove(stopped, modelId),
    drain ({ installId, ...entry }: DrainedEntry & { installId: string }): Done {
      const changed = drainedNodes.get(installId) === undefined
      if (changed) drainedNodes.put(installId, entry)
      return { changed }
    },
    undrain: ({ installId }: { installId: string }) => remove(drainedNodes, installId)
  }
}

/** An instance that waits for a place, as /state shows it. */
export interface WaitingInstance extends WaitingEntry {
  instanceId: string
  origin: PlacementIntent['origin']
}

/** The part of /state: what waits, by the key of its entry. */
export function waitingView (waiting: Section<WaitingEntry>): Record<string, WaitingInstance> {
  return Object.fromEntries([...waiting.entries()].map(({ key, value }) =>
    [key, { instanceId: key, origin: value.intent.origin, ...value }]))
}

export function drainedView (drainedNodes: Section<DrainedEntry>): Record<string, DrainedEntry> {
  return Object.fromEntries([...drainedNodes.entries()].map(({ key, value }) => [key, value]))
}
