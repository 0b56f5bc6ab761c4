import type { CommandDecl, FromSchema, Section, SectionDecl } from '../../kernel/index.js'
import { placement, type PlacementIntent } from '../runners/service.js'
import { policyPatch, storedPolicy, type StoredPolicy } from './place/policies.js'

/** An instance that waits to be placed. Its key is the id of the lost instance, or a new id. */
export type WaitingEntry = {
  modelId: string
  intent: PlacementIntent
  /** Id of the instance or entry that the lost instance had replaced; null if there is none. */
  replaces: string | null
  since: string
  /** Why the instance is not placed, as a stable code and as a sentence. */
  reason: string
  message: string
}

export type StoppedEntry = { since: string }

/** Record of a drained node, which gets no new instances and whose instances move to other nodes. */
export type DrainedEntry = { since: string, by: string }

/** Limit in characters on an entry's message. */
export const MESSAGE_CHARS_MAX = 500

const text = { type: 'string' } as const

export const sections = {
  waiting: {
    writer: 'master',
    summary: 'Instances that wait for a place.',
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
    summary: 'Models that an operator stopped; they are not placed automatically.',
    value: { type: 'object', additionalProperties: false, required: ['since'], properties: { since: text } }
  },
  drainedNodes: {
    writer: 'master',
    summary: 'Drained nodes by install id.',
    value: {
      type: 'object', additionalProperties: false, required: ['since', 'by'],
      properties: { since: text, by: text }
    }
  },
  policies: { writer: 'master', summary: 'Policies of models by model id.', value: storedPolicy }
} as const satisfies Record<string, SectionDecl>

const command = <const P extends object>(summary: string, properties: P) => ({
  summary,
  args: { type: 'object', additionalProperties: false, required: Object.keys(properties), properties },
  result: { type: 'object', required: ['changed'], properties: { changed: { type: 'boolean' } } }
} as const satisfies CommandDecl)

/** Commands by which the master changes these sections. All are idempotent. */
export const commands = {
  wait: command('Adds an instance to the waiting list; an existing entry does not change.',
    { id: text, entry: sections.waiting.value }),
  note: command('Updates the reason of a waiting instance, if it still waits.',
    { id: text, reason: text, message: text }),
  unwait: command('Removes an instance from the waiting list, if it is there.', { id: text }),
  stop: command('Stops the automatic placement of a model, and removes its waiting entries.',
    { modelId: text, since: text }),
  unstop: command('Allows the automatic placement of a model again.', { modelId: text }),
  drain: command('Drains a node.', { installId: text, since: text, by: text }),
  undrain: command('Ends the drain of a node.', { installId: text }),
  policy: {
    ...command('Changes the policy of a model, or sets it to that of svc.yaml.',
      { modelId: text, patch: policyPatch, from: storedPolicy.properties.from }),
    result: storedPolicy
  }
} as const

export interface CommandParts {
  waiting: Section<WaitingEntry>
  stopped: Section<StoppedEntry>
  drainedNodes: Section<DrainedEntry>
  policies: Section<StoredPolicy>
  replaced (id: string): boolean
  waits (id: string, entry: WaitingEntry): void
}

export interface Done { changed: boolean }

export function commandHandlers (
  { waiting, stopped, drainedNodes, policies, replaced, waits }: CommandParts
) {
  const remove = (section: Section<unknown>, key: string): Done => {
    const changed = section.get(key) !== undefined
    if (changed) section.remove(key)
    return { changed }
  }
  return {
    wait ({ id, entry }: { id: string, entry: WaitingEntry }): Done {
      // Ignore a late command from an earlier master, which would place the instance a second time.
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
    undrain: ({ installId }: { installId: string }) => remove(drainedNodes, installId),
    policy ({ modelId, patch, from }: FromSchema<typeof commands.policy.args>): StoredPolicy {
      const before = from === 'request' ? policies.get(modelId) : {}
      const fields = Object.entries({ ...before, ...patch, from }).filter(([, value]) => value !== null)
      const policy = Object.fromEntries(fields) as StoredPolicy
      // Without the entry, the policy of svc.yaml applies again.
      if (fields.length === 1) remove(policies, modelId)
      else policies.put(modelId, policy)
      return policy
    }
  }
}

export interface WaitingInstance extends WaitingEntry {
  instanceId: string
  origin: PlacementIntent['origin']
}

export function waitingView (waiting: Section<WaitingEntry>): Record<string, WaitingInstance> {
  return Object.fromEntries([...waiting.entries()].map(({ key, value }) =>
    [key, { instanceId: key, origin: value.intent.origin, ...value }]))
}

export function drainedView (drainedNodes: Section<DrainedEntry>): Record<string, DrainedEntry> {
  return Object.fromEntries([...drainedNodes.entries()].map(({ key, value }) => [key, value]))
}
