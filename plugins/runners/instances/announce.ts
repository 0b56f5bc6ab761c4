import { bodyOf } from './shapes.js'
import type { Instance } from './shapes.js'
import type { Logger, Section, Session } from '../../../kernel/index.js'

interface Created { instanceId: string, modelId: string, nodeIds: string[] }

export interface AnnouncerParts {
  section: Section<Instance>
  session: Pick<Session, 'isMaster' | 'sessionId'>
  log: Logger
  /** Resolves when what the section holds is acknowledged. */
  settled (): Promise<void>
  created (event: Created): void
  deleted (event: Omit<Created, 'nodeIds'>): void
}

/**
 * Tells which instances came and went: the master does, once, of what the cluster has acknowledged. What is
 * entered and then lost with its master was never there. To be called after each change of the section.
 */
export function createAnnouncer (parts: AnnouncerParts): () => Promise<void> {
  const { section, session, settled, created, deleted } = parts
  let known = new Map<string, Created>()
  const look = (): Map<string, Created> => new Map([...section.entries()].map(({ key, value }) => {
    const { shardAssignments: { modelId, nodeToRunner } } = bodyOf(value)
    return [key, { instanceId: key, modelId, nodeIds: Object.keys(nodeToRunner) }]
  }))
  known = look()
  return async () => {
    const { sessionId } = session
    const seen = look()
    if (session.isMaster) {
      try { await settled() } catch (err) {
        // Whoever is master now tells what holds.
        parts.log.debug({ err }, 'a change of the instances is not acknowledged')
        return
      }
    }
    // A change of the session asks again.
    if (session.isMaster && session.sessionId !== sessionId) return
    const now = look()
    const tells = session.isMaster
    for (const [id, event] of seen) {
      if (!now.has(id) || known.has(id)) continue
      known.set(id, event)
      if (tells) created(event)
    }
    for (const [id, { modelId }] of [...known]) {
      if (now.has(id) || seen.has(id)) continue
      known.delete(id)
      if (tells) deleted({ instanceId: id, modelId })
    }
  }
}
