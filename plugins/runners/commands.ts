import type { CommandDecl, Section } from '../../kernel/index.js'
import { sections } from './sections.js'
import type { Entering } from './service.js'
import type { Instance } from './shapes.js'

const text = { type: 'string' } as const

/** Decisions about instances: only the master makes them. */
export const commands = {
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
  }
} as const satisfies Record<string, CommandDecl>

export interface CommandParts {
  section: Section<Instance>
  /** Looks at what is to be entered; throws to refuse it. Not asked where that was forced. */
  check (entering: Entering): void
  created (instanceId: string, modelId: string, nodeIds: string[]): void
  deleted (instanceId: string, modelId: string): void
}

/** What the master does with them. */
export function commandHandlers ({ section, check, created, deleted }: CommandParts): {
  create (args: { instance: Instance, force?: boolean }): { instanceId: string }
  remove (args: { instanceId: string }): { removed: boolean }
} {
  return {
    create ({ instance, force }) {
      const { instanceId, shardAssignments: { modelId, nodeToRunner } } = instance.RingInstance
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
    remove ({ instanceId }) {
      const instance = section.get(instanceId)
      if (instance === undefined) return { removed: false }
      section.remove(instanceId)
      deleted(instanceId, instance.RingInstance.shardAssignments.modelId)
      return { removed: true }
    }
  }
}

/** The instance of that model on exactly those nodes. */
function samePlace (section: Section<Instance>, modelId: string, nodeIds: string[]): string | undefined {
  const wanted = [...nodeIds].sort().join()
  for (const { key, value: { RingInstance: { shardAssignments } } } of section.entries()) {
    const nodes = Object.keys(shardAssignments.nodeToRunner).sort().join()
    if (shardAssignments.modelId === modelId && nodes === wanted) return key
  }
  return undefined
}
