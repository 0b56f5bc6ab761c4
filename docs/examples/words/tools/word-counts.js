// @ts-check
import { fact, quoted, createToolReads } from 'svc/cli'

/**
 * What this tool reads of GET /state.
 * @typedef {{
 *   wordCounts: Record<string, number>, nodeIdentities: Record<string, { friendlyName: string }>
 * }} State
 */

/**
 * How many words each node has counted, or the one that is named.
 * @type {import('svc/cli').Tool<{ node?: string }>}
 */
export default {
  async run (ctx, { node }) {
    const look = createToolReads(ctx)
    const state = /** @type {State | null} */ (await look.read('The counts', '/state'))
    if (state === null) return { facts: [], unknown: look.unknown }
    const facts = Object.entries(state.wordCounts).flatMap(([nodeId, count]) => {
      const name = quoted(state.nodeIdentities[nodeId]?.friendlyName ?? nodeId, 80)
      if (node !== undefined && node !== name) return []
      return [fact('info', 'words_counted', `${name} has counted ${count} words since it started.`,
        { about: [name], evidence: [{ kind: 'node', nodeId, name }] })]
    })
    const none = fact('info', 'nothing_counted', 'No words were counted yet.', {
      evidence: [{ kind: 'path', path: '/state' }],
      remedy: 'Count some: `svc call words@1.0.0 --text "good morning"`.'
    })
    return { facts: facts.length === 0 ? [none] : facts, unknown: look.unknown }
  }
}
