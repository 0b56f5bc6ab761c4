import { fact, quoted, createToolReads, withoutFullStop } from '../../../kernel/cli/index.js'
import { joinNodes } from '../../cluster/cli/nodes.js'
import type { ClusterState, Evidence, Fact, ToolReads, Tool, ToolContext } from '../../../kernel/cli/index.js'
import type { MemberList, NodeRow } from '../../cluster/cli/nodes.js'
import { nameOf } from '../cli/state.js'
import { modelOf, nodesOf } from '../place/instance.js'
import { bodyOf } from '../../runners/service.js'
import { wouldBe } from './model-chain.js'
import type { WhyState } from './request-facts.js'

interface Copy { modelId: string, nodeId: string, kind: string, live: boolean }
type State = WhyState & ClusterState

const MODELS_MOST = 10

export default {
  async run (ctx, { node: word }) {
    const looked = createToolReads(ctx)
    const { read, unknown } = looked
    const [state, members, config, copies] = await Promise.all([
      read<State>('The state of the cluster', '/state'),
      ctx.look<MemberList>('/cluster/members').then((list) => list instanceof Error ? null : list),
      read<{ entries: { path: string, value: unknown }[] }>('The settings', '/config'),
      read<{ copies: Copy[] }>('Where files are', '/models/copies')
    ])
    if (state === null) return { facts: [], unknown }
    const nodes = joinNodes(state, members)
    const node = nodes.find(({ name, nodeId, installId }) =>
      name?.toLowerCase() === word.toLowerCase() || nodeId === word || installId === word)
    if (node === undefined) {
      const names = nodes.map(({ name }) => quoted(name ?? '')).join(', ')
      return { facts: [], unknown: [`No node is called ${quoted(word)}; there are ${names}.`] }
    }
    const quorum = config?.entries.find(({ path }) => path === 'cluster.quorum')?.value
    const alone = nodes.every((one) => one === node || !one.live)
    const ways = await instances({ ctx, looked, state, node, alone })
    const rest = [
      ...deciding(state, nodes, node, quorum), ...ways,
      ...copies === null ? [] : files(copies.copies, node, state)
    ]
    return { facts: [summary(node, rest), ...rest], unknown }
  }
} satisfies Tool<{ node: string }>

const called = ({ name, nodeId }: NodeRow): string => quoted(name ?? nodeId ?? 'the node')
const shown = ({ nodeId, name }: NodeRow): Evidence[] =>
  nodeId === null ? [] : [{ kind: 'node', nodeId, name: quoted(name ?? nodeId) }]

function summary (node: NodeRow, rest: readonly Fact[]): Fact {
  const name = called(node)
  const about = [...new Set([name, ...rest.flatMap((one) => one.about)])]
  const bad = rest.some(({ level }) => level === 'warn')
  if (!node.live) {
    return fact('warn', 'node_lost', `${name} is already lost; the consequences are below.`,
      { about, evidence: shown(node), remedy: `Start ${name} again with \`svc up\` there.` })
  }
  const models = (code: string): string[] =>
    rest.filter((one) => one.code === code).map((one) => one.about[0]!)
  const [moved, waiting] = [models('would_move'), models('would_wait')]
  const parts = [
    ...rest.filter(({ code }) => SUMMED.has(code)).map(({ text }) => lowered(text).replace(/\.$/, '')),
    ...moved.length === 0 ? [] : [`${moved.join(', ')} would move`],
    ...waiting.length === 0 ? [] : [`${waiting.join(', ')} would wait for a place`]
  ]
  return fact(bad ? 'warn' : 'info', 'what_if', `If ${name} died: ${parts.join('; ')}.`,
    { about, evidence: shown(node) })
}

/** Makes the first word of a sentence lower-case if it is "No" or "The". */
const lowered = (text: string): string => text.replace(/^(?:No|The) /, (word) => word.toLowerCase())

const SUMMED = new Set(['no_quorum', 'quorum', 'nothing_lost', 'store_unreachable', 'single_copy'])

function deciding (state: State, nodes: readonly NodeRow[], node: NodeRow, quorum: unknown): Fact[] {
  const known = state.cluster?.knownNodes ?? nodes.length
  const left = nodes.filter((one) => one.live && one !== node).length
  const needed = quorum === 'majority' ? Math.floor(known / 2) + 1
    : typeof quorum === 'number' ? quorum : null
  const more = { about: [called(node)] }
  const master = node.isMaster
    ? 'another node would be elected master within seconds, and open requests would end with session_changed'
    : `the master stays ${quoted(nodes.find(({ isMaster }) => isMaster)?.name ?? 'unknown')}`
  if (left === 0) return [fact('warn', 'no_quorum', 'No live node would be left.', more)]
  if (needed === null) {
    return [fact('info', 'quorum', `${left} of ${known} nodes would be left; ${master}.`, more)]
  }
  return [left >= needed
    ? fact('info', 'quorum', `${left} of ${known} nodes would be left and keep the quorum; ${master}.`, more)
    : fact('warn', 'no_quorum', `${left} of ${known} nodes would be left, and ${needed} are needed for ` +
    'a quorum: nothing could be placed or changed.', {
        ...more, remedy: 'Add a node first: `svc join-token`.'
      })]
}

/** A node whose loss is examined; `alone` is true if no other node is live. */
interface Loss { ctx: ToolContext, looked: ToolReads, state: State, node: NodeRow, alone: boolean }

async function instances ({ ctx, looked, state, node, alone }: Loss): Promise<Fact[]> {
  const { nodeId } = node
  const there = Object.values(state.instances)
    .filter((one) => nodeId !== null && nodesOf(one).includes(nodeId))
  if (there.length === 0) {
    return [fact('info', 'nothing_lost', 'No model runs there.', { about: [called(node)] })]
  }
  const models = [...new Set(there.map(modelOf))].slice(0, MODELS_MOST)
  return await Promise.all(models.map(async (modelId) => {
    const model = quoted(modelId)
    const elsewhere = Object.values(state.instances).some((one) => modelOf(one) === modelId &&
      !there.includes(one) && bodyOf(one).drainUntil === undefined)
    if (alone) {
      return fact('warn', 'would_wait', `${model} would wait until a node is back.`,
        { about: [model, called(node)], remedy: 'Add a node first: `svc join-token`.' })
    }
    const { nodeIds, refusal } = await wouldBe(ctx.look, modelId, nodeId!)
    const names = nodeIds.map((id) => nameOf(state, id))
    const about = [model, called(node), ...names]
    const still = elsewhere ? '; another instance of it still answers' : ''
    if (refusal === null) {
      return fact('info', 'would_move', `${model} would be placed again on ${names.join(', ')}; its ` +
        `open requests would end${still}.`, { about })
    }
    const why = withoutFullStop(refusal.api?.message ?? refusal.message, 300)
    looked.unknown.push(...refusal.api?.reason === 'info_pending' ? [`Where ${model} would go: ${why}.`] : [])
    const level = elsewhere ? 'info' : 'warn'
    return fact(level, 'would_wait', `${model} would wait for a place: ${why}${still}.`, {
      about, remedy: `See why it does not fit elsewhere: \`svc place ${model} ` +
        `--exclude ${called(node)} --dry-run --explain\`.`
    })
  }))
}

/** Facts about models that only this node has a copy of, and about the loss of its model store. */
function files (copies: readonly Copy[], node: NodeRow, state: State): Fact[] {
  // Ignore bundled models, because every node with the plugin that bundles them has them.
  const whole = copies.filter(({ live, kind }) => live && kind !== 'receiving' && kind !== 'bundled')
  const own = whole.filter(({ nodeId }) => nodeId === node.nodeId)
  const others = new Set(whole.filter((one) => one.nodeId !== node.nodeId).map(({ modelId }) => modelId))
  const single = [...new Set(own.map(({ modelId }) => modelId))].filter((id) => !others.has(id))
    .map((id) => quoted(id))
  const to = Object.entries(state.nodeIdentities).find(([id]) => id !== node.nodeId)?.[1].friendlyName
  const evidence: Evidence[] = [{ kind: 'path', path: '/models/copies' }]
  return [
    ...own.some(({ kind }) => kind === 'store')
      ? [fact('warn', 'store_unreachable', 'The store is there: nothing could be pulled or staged from it ' +
      'until the node is back.', { about: [called(node)], evidence })]
      : [],
    ...single.length === 0 ? [] : [fact('warn', 'single_copy',
      `The only copy of ${single.slice(0, MODELS_MOST).join(', ')} is there.`, {
        about: [called(node), ...single], evidence,
        remedy: `Make another copy: \`svc stage ${single[0]!}${to == null ? '' : ` --node ${quoted(to)}`}\`.`
      })]
  ]
}
