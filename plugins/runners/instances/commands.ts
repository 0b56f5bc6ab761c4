import { closedObject, openObject, type CommandDecl, type Section } from '../../../kernel/index.js'
import { events } from '../declarations.js'
import { MAX_PER_COMMAND } from '../routing/lost-tasks.js'
import { sections, type Instance } from './sections.js'
import type { PendingInstance } from '../service.js'
import { bodyOf, changed } from './shapes.js'

const text = { type: 'string' } as const

export const commands = {
  settle: {
    summary: 'Changes nothing; its acknowledgement confirms all earlier entries.',
    args: closedObject({}),
    result: openObject({ sessionId: text })
  },
  tasksFailed: {
    summary: 'Reports failed tasks, each once.',
    args: closedObject({ failures: { type: 'array', items: events.TaskFailed.payload,
      maxItems: MAX_PER_COMMAND } })
  },
  instancesGone: {
    summary: 'Reports instances that were lost with the session of another master.',
    args: closedObject({
      instances: { type: 'array', items: closedObject({ instanceId: text, modelId: text }) }
    })
  },
  create: {
    summary: 'Places an instance, unless the same one exists already.',
    args: closedObject({ instance: sections.instances.value, force: { type: 'boolean' } }, ['instance']),
    result: openObject({ instanceId: text })
  },
  remove: {
    summary: 'Removes an instance; has no effect if it does not exist.',
    args: closedObject({ instanceId: text }),
    result: openObject({ removed: { type: 'boolean' } })
  },
  drain: {
    summary: 'Stops new requests to an instance and removes it when its last one has ended.',
    args: closedObject({ instanceId: text, seconds: { type: 'number', minimum: 0 } }),
    result: openObject({ found: { type: 'boolean' } })
  }
} as const satisfies Record<string, CommandDecl>

export interface CommandParts {
  section: Section<Instance>
  /** Wall-clock time in ms. */
  now (): number
  live (nodeId: string): boolean
  /** Digest of the model's content; undefined if it is unknown or the model is bundled. */
  digest (modelId: string): string | undefined
  /** Throws to refuse a new instance. Not called for a forced placement. */
  check (entering: PendingInstance): void
}

export function commandHandlers (parts: CommandParts): {
  create (args: { instance: Instance, force?: boolean }): { instanceId: string }
  remove (args: { instanceId: string }): { removed: boolean }
  drain (args: { instanceId: string, seconds: number }): { found: boolean }
} {
  const { section, check } = parts
  const remove = ({ instanceId }: { instanceId: string }): { removed: boolean } => {
    const removed = section.get(instanceId) !== undefined
    section.remove(instanceId)
    return { removed }
  }
  return {
    create ({ instance, force }) {
      const { instanceId, shardAssignments: { modelId, nodeToRunner } } = bodyOf(instance)
      const nodeIds = Object.keys(nodeToRunner)
      const modelDigest = parts.digest(modelId)
      const there = samePlace(section, modelId, nodeIds, modelDigest)
      if (there !== undefined) return { instanceId: there }
      if (force !== true) {
        check({ instance, instances: [...section.entries()].map(({ value }) => value) })
      }
      // An instance id is never reused.
      if (section.get(instanceId) !== undefined) return { instanceId }
      // Pin the digest: by the time a node loads the model, the store may hold another version of it.
      section.put(instanceId, modelDigest === undefined ? instance : changed(instance, { modelDigest }))
      return { instanceId }
    },
    remove,
    drain ({ instanceId, seconds }) {
      const instance = section.get(instanceId)
      if (instance === undefined) return { found: false }
      const ring = bodyOf(instance)
      const nobody = !Object.keys(ring.shardAssignments.nodeToRunner).some((nodeId) => parts.live(nodeId))
      if (nobody || seconds === 0) return { found: remove({ instanceId }).removed }
      const drainUntil = new Date(parts.now() + seconds * 1000).toISOString()
      // The first deadline applies, unless a later command sets an earlier deadline.
      if (ring.drainUntil === undefined || drainUntil < ring.drainUntil) {
        section.put(instanceId, changed(instance, { drainUntil }))
      }
      return { found: true }
    }
  }
}

/** The active instance of the model on exactly these nodes, unless it runs an older version. */
function samePlace (
  section: Section<Instance>, modelId: string, nodeIds: string[], digest: string | undefined
): string | undefined {
  const wanted = [...nodeIds].sort().join()
  for (const { key, value } of section.entries()) {
    const { shardAssignments, drainUntil, modelDigest } = bodyOf(value)
    const older = modelDigest !== undefined && digest !== undefined && modelDigest !== digest
    if (drainUntil !== undefined || older) continue
    const nodes = Object.keys(shardAssignments.nodeToRunner).sort().join()
    if (shardAssignments.modelId === modelId && nodes === wanted) return key
  }
  return undefined
}
