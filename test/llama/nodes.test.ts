/** On one or several complete nodes a real llama.cpp produces the same text for every split of the model. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { NO_TENSOR_SPLIT } from '../../plugins/staging/cards/cuts.js'
import { cmdline } from '../node/proc.js'
import { programs } from './kit.js'
import {
  openStream, DONOR, DRIVER, ENDLESS, place, processes, remove, answerOf, skip, started, STORIES
} from './nodes-kit.js'

t.test('on one, two and three nodes', { skip, timeout: 300_000 }, async (t) => {
  const cluster = await started(t, 3)
  const { master } = await cluster.agreed()
  for (const model of [STORIES, ENDLESS]) {
    const texts: (string | undefined)[] = []
    for (const sharding of ['Pipeline', 'Tensor'] as const) {
      for (const nodes of [1, 2, 3]) {
        await t.test(`greedy text of ${model}, ${sharding} on ${nodes}`, async (t) => {
          const placed = await place(t, master, model, nodes, sharding)
          t.equal(Object.keys(placed.shardAssignments.nodeToRunner).length, nodes)
          const [driver, ...others] = processes(cluster, DRIVER)
          t.equal(others.length, 0)
          const words = cmdline(driver!)
          const tensor = sharding === 'Tensor' && nodes > 1
          if (nodes > 1) t.match(words, `--split-mode ${tensor ? 'tensor' : 'layer'}`)
          t.equal(processes(cluster, DONOR).length, tensor ? nodes : nodes - 1, 'a CPU driver is a rank, too')
          for (const member of cluster.up()) texts.push(await answerOf(member, model))
          const streamed = await (await openStream(master, model)).end
          t.equal(streamed.map(({ choices }) => choices?.[0]?.text ?? '').join(''), texts[0], 'as a stream')
          await remove(t, cluster, master, placed)
        })
      }
    }
    if (model === STORIES) t.match(texts[0], /^, there was a /)
    t.equal(texts.length, 18)
    t.equal(new Set(texts).size, 1, 'the same everywhere')
  }
})

t.test('architectures that llama.cpp does not split by tensors', { skip }, async (t) => {
  const source = readFileSync(join(programs, '../../src/llama-arch.cpp'), 'utf8')
  const table = [...source.matchAll(/\{ (LLM_ARCH_\w+),\s+"([^"]+)"/g)]
  const names = new Map(table.map(([, id, name]) => [id, name]))
  const [, list = ''] = /supports_sm_tensor\(.*?switch \(arch\) \{(.*?)return false;/s.exec(source) ?? []
  const refused = [...list.matchAll(/case (LLM_ARCH_\w+):/g)].map(([, id]) => names.get(id))
  t.ok(refused.length > 0)
  t.strictSame([...NO_TENSOR_SPLIT].sort(), refused.sort())
})
