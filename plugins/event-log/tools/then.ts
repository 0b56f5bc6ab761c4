import {
  fact, MOMENTS, quoted, parseTimeOrIndex, createToolReads, showTime
} from '../../../kernel/cli/index.js'
import type { ClusterState, Evidence, Fact, Tool } from '../../../kernel/cli/index.js'
import { assignmentsOf, fieldsOf } from '../history/part.js'
import type { StateAt } from '../history/lookup.js'
import type { NameOf } from './descriptions.js'

const INSTANCES_MOST = 30

type Recorded = Pick<ClusterState, 'nodeHealth' | 'nodeIdentities'> &
  { runners?: Record<string, object>, instances?: Record<string, object> }

export default {
  async run (ctx, { at }) {
    const moment = parseTimeOrIndex(at, ctx.nowMs)
    if (moment === null) {
      return { facts: [], unknown: [`"${quoted(at, 60)}" is not a valid time: ${MOMENTS}.`] }
    }
    const look = createToolReads(ctx)
    const path = `/state?at=${encodeURIComponent(moment)}`
    const then = await look.read<StateAt>('The state at that time', path)
    const missing = then !== null && then.gaps.length > 0
      ? ['Events of that time are missing on this node: nodes and instances may be outdated.']
      : []
    return {
      facts: then === null ? [] : factsOf(then, path, ctx.nowMs),
      unknown: [...look.unknown, ...missing]
    }
  }
} satisfies Tool<{ at: string }>

function factsOf ({ at, derived, state, snapshot }: StateAt, path: string, nowMs: number): Fact[] {
  const recorded = state as unknown as Partial<Recorded>
  const nameOf: NameOf = (id) =>
    quoted(recorded.nodeIdentities?.[id]?.friendlyName ?? `node ${id.slice(0, 8)}`, 80)
  const when = typeof at === 'number' ? `At index ${at}` : `At ${showTime(Date.parse(at), nowMs)}`
  const evidence: Evidence[] = [{ kind: 'path', path }, { kind: 'time', at: snapshot.at }]
  const info = (code: string, text: string, about: readonly string[]): Fact =>
    fact('info', code, text, { about, evidence })
  const { session: { masterNodeId, term }, members } = derived
  const names = members.map(nameOf)
  return [
    masterNodeId === null
      ? info('no_master', `${when} no master was known.`, [])
      : info('master', `${when} ${nameOf(masterNodeId)} was master, in term ${term}.`,
          [nameOf(masterNodeId)]),
    info('nodes', `${when} ${names.length} ${names.length === 1 ? 'node was' : 'nodes were'} in the ` +
    `cluster: ${names.join(', ')}.`, names),
    ...unwell(recorded, nameOf).map(({ name, codes }) =>
      info('unwell', `${when} ${name} reported ${codes}.`, [name])),
    ...placed(derived, recorded, nameOf).map(({ text, about }) => info('placed', `${when} ${text}.`, about)),
    ...Object.keys(derived.instances).length === 0
      ? [info('nothing_placed', `${when} no model was placed.`, [])]
      : []
  ]
}

function unwell ({ nodeHealth = {} }: Partial<Recorded>, nameOf: NameOf): { name: string, codes: string }[] {
  return Object.entries(nodeHealth).filter(([, { level }]) => level !== 'ok').map(([id, { reasons }]) =>
    ({ name: nameOf(id), codes: reasons.map(({ code }) => quoted(code, 60)).join(', ') }))
}

/** The instances at that time, with the states that their runners had in the snapshot. */
function placed (
  { instances }: StateAt['derived'], { runners = {}, instances: bodies = {} }: Partial<Recorded>,
  nameOf: NameOf
): { text: string, about: string[] }[] {
  return Object.entries(instances).slice(0, INSTANCES_MOST).map(([id, { modelId, nodeIds }]) => {
    const nodes = nodeIds.map(nameOf)
    const model = quoted(modelId)
    const kinds = Object.values(fieldsOf(assignmentsOf(bodies[id])['nodeToRunner']))
      .map((runner) => Object.keys(runners[String(runner)] ?? {})[0] ?? 'no runner')
    const states = kinds.length === 0 ? '' : ` (${[...new Set(kinds)].join(', ')})`
    const text = `${model} was placed on ${nodes.join(', ') || 'no node'}${states}`
    return { text, about: [model, id, ...nodes] }
  })
}
