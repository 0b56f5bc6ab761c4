import type { CommandDecl, Section } from '../../kernel/index.js'
import { sections } from './sections.js'
import type { Entering } from './service.js'
import { bodyOf, changed } from './shapes.js'
import type { Instance } from './shapes.js'
import { taskSpace } from './task-ids.js'

const text = { type: 'string' } as const

/** Decisions about instances: only the master makes them. */
export const commands = {
  taskSpace,
  create: {
    summary: 'Places an instance; the one that is there already counts.',
    args: {
      type: 'object',
      additionalProperties: false,
      required: ['instance'],
      properties: { instance: sections.instances.value, force: { type: 'boolean' } }
    },
    result: { type: 'object', required: ['instanceId'], properties: { instanceId: text } }
  },
  remove: {
    summary: 'Removes an instance; nothing happens when it is gone.',
    args: {
      type: 'object',
      additionalProperties: false,
      required: ['instanceId'],
      properties: { instanceId: text }
    },
    result: { type: 'object', required: ['removed'], properties: { removed: { type: 'boolean' } } }
  },
  drain: {
    summary: 'Has an instance take no new requests; it is removed when its last one has ended.',
    args: {
      type: 'object',
      additionalProperties: false,
      required: ['instanceId', 'seconds'],
      properties: { instanceId: text, seconds: { type: 'number', minimum: 0 } }
    },
    result: { type: 'object', required: ['found'], properties: { found: { type: 'boolean' } } }
  }
} as const satisfies Record<string, CommandDecl>

export interface CommandParts {
  section: Section<Instance>
  /** Wall ms. */
  now (): number
  live (nodeId: string): boolean
  /** Looks at what is to be entered; throws to refuse it. Not asked where that was forced. */
  check (entering: Entering): void
  created (instanceId: string, modelId: string, nodeIds: string[]): void
  deleted (instanceId: string, modelId: string): void
}

/** What the master does with them. */
export function commandHandlers (parts: CommandParts): {
  create (args: { instance: Instance, force?: boolean }): { instanceId: string }
  remove (args: { instanceId: string }): { removed: boolean }
  drain (args: { instanceId: string, seconds: number }): { found: boolean }
} {
  const { section, check, created, deleted } = parts
  const remove = ({ instanceId }: { instanceId: string }): { removed: boolean } => {
    const instance = section.get(instanceId)
    if (instance === undefined) return { removed: false }
    section.remove(instanceId)
    deleted(instanceId, bodyOf(instance).shardAssignments.modelId)
    return { removed: true }
  }
  return {
    create ({ instance, force }) {
      const { instanceId, shardAssignments: { modelId, nodeToRunner } } = bodyOf(instance)
      const nodeIds = Object.keys(nodeToRunner)
      const there = samePlace(section, modelId, nodeIds)
      if (there !== undefined) return { instanceId: there }
      if (force !== true) {
        check({ instance, instances: [...section.entries()].map(({ value }) => value) })
      }
      // An id belongs to one instance for ever.
      if (section.get(instanceId) !== undefined) return { instanceId }
      section.put(instanceId, instance)
      created(instanceId, modelId, nodeIds)
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
      // The first word counts, unless a later one is sooner.
      if (ring.drainUntil === undefined || drainUntil < ring.drainUntil) {
        section.put(instanceId, changed(instance, { drainUntil }))
      }
      return { found: true }
    }
  }
}

/** The instance of that model on exactly those nodes that goes on. */
function samePlace (section: Section<Instance>, modelId: string, nodeIds: string[]): string | undefined {
  const wanted = [...nodeIds].sort().join()
  for (const { key, value } of section.entries()) {
    const { shardAssignments, drainUntil } = bodyOf(value)
    if (drainUntil !== undefined) continue
    const nodes = Object.keys(shardAssignments.nodeToRunner).sort().join()
    if (shardAssignments.modelId === modelId && nodes === wanted) return key
  }
  return undefined
}
