import t from 'tap'
import { Planning } from '../place/planning.js'
import { memoryFit } from '../place/check.js'
import { card, GIB, stateOf } from './kit.js'
import type { Facts } from '../facts.js'
import type { EngineDecl, NodeReport } from '../../../kernel/index.js'

const here = card('acme/here', { engine: 'llama-server', totalBytes: 4 * GIB, headSize: 128 })

/** Planning for nodes with the given RAM in GiB, half of it free, with or without the llama.cpp program. */
function planningOf (
  gibs: Record<string, number>, { program = true, engines = true, told = true } = {}
): Planning {
  const state = stateOf(gibs)
  const names = Object.keys(gibs)
  const nodes = names.map((name) => ({
    view: { nodeId: `id-${name}`, installId: name, name, live: true },
    memory: told ? state.nodeMemory[`id-${name}`] : null, system: null,
    resources: { backends: ['cpu'], participation: 'full', engines: { 'llama-server': program ? {} : null } },
    links: names.filter((other) => other !== name).map((other) => ({ nodeId: `id-${other}` }))
  })) as unknown as NodeReport[]
  const decl = { backends: ['cpu'], overhead: 1.1, fixedBytes: 0, multiNode: true, meta: 'LlamaRpc',
    program: { name: 'llama-server', builds: 'llama.cpp' } } as unknown as EngineDecl
  const facts = { nodes, instances: {}, runners: {}, downloads: {}, waitingInstances: {} } as unknown as Facts
  const deps = {
    bundle: { engines: () => engines ? [{ name: 'llama-server', decl }] : [], model: () => undefined },
    models: { card: (id: string) => id === 'acme/here' ? here : undefined, stagedBytes: () => new Map() },
    instances: { releasing: () => [] }, cluster: { resolve: (id: string) => ({ name: id.slice(3) }) }
  }
  const sections = { drainedNodes: { entries: () => [] } }
  return new Planning({ deps, sections } as never, { now: () => facts } as never)
}

t.test('what fits one node, what is spread, and what fits nowhere', (t) => {
  const planning = planningOf({ n1: 16, n2: 12 })
  t.match(memoryFit(planning, 'gguf', 4 * GIB, 'acme/m'),
    { problem: null, engineMissing: null, nodes: [{ name: 'n1' }] })
  const spread = memoryFit(planning, 'gguf', 11 * GIB, 'acme/m')!
  t.same(spread.nodes.map(({ name }) => name).sort(), ['n1', 'n2'])
  t.equal(spread.neededBytes, Math.ceil(11 * GIB * 1.1))
  const least = memoryFit(planning, 'gguf', 4 * GIB, 'acme/m')!.neededBytes
  t.ok(memoryFit(planning, 'gguf', 4 * GIB, 'acme/here')!.neededBytes > least, 'with its context')
  const never = memoryFit(planning, 'gguf', 40 * GIB, 'acme/m')!
  t.same(never.nodes, [])
  t.match(never.problem, /GiB/)
  t.end()
})

t.test('a program that is missing is told beside the memory', (t) => {
  const planning = planningOf({ n1: 16 }, { program: false })
  t.match(memoryFit(planning, 'gguf', GIB, 'acme/m'),
    { problem: null, nodes: [{ name: 'n1' }], engineMissing: 'llama.cpp' })
  t.match(memoryFit(planning, 'gguf', 40 * GIB, 'acme/m'), { problem: /GiB/, engineMissing: 'llama.cpp' })
  t.end()
})

t.test('what is not known is not said', (t) => {
  t.equal(memoryFit(planningOf({ n1: 16 }, { told: false }), 'gguf', GIB, 'acme/m'), null)
  t.equal(memoryFit(planningOf({ n1: 16 }, { engines: false }), 'gguf', GIB, 'acme/m'), null)
  t.equal(memoryFit(planningOf({ n1: 16 }), 'onnx', GIB, 'acme/m'), null)
  t.end()
})
