import { readFileSync } from 'node:fs'
import t from 'tap'
import { bundled } from '../../index.js'
import { understand } from '../reader/understand.js'
import type { World } from '../reader/entities.js'

/** Monday, 23 November 2026, 20:22 UTC. */
const world: World = {
  models: ['acme/voice', 'acme/voice-xl', 'svc/voice-en', 'svc/guide', 'Qwen/Qwen3-0.6B-GGUF', 'acme/chat-2'],
  nodes: [
    { nodeId: '4f1c9a2e-0000-4000-8000-000000000001', name: 'attic' },
    { nodeId: '8b2d7c3f-0000-4000-8000-000000000002', name: 'node2' },
    { nodeId: 'c3e5f6a7-0000-4000-8000-000000000003', name: 'cellar' }
  ],
  instances: { '77aa88bb-0000-4000-8000-000000000009': 'acme/voice' },
  master: '4f1c9a2e-0000-4000-8000-000000000001', local: null,
  nowMs: Date.parse('2026-11-23T20:22:00Z'), plugins: bundled.map(({ manifest }) => manifest.name),
  zoneMin: 0
}

const ID = '1b4e28ba-2fa1-41d2-883f-0016d3cca427'

/** One question per line, with its expected intent and the names to recognise. */
const PHRASES = readFileSync(new URL('./fixtures/phrases.txt', import.meta.url), 'utf8')

interface Row { asked: string, intent: string, names: string[] }

const rows: Row[] = PHRASES.trim().split('\n').map((line) => {
  const [asked, expected] = line.replaceAll('<ID>', ID).split(' | ') as [string, string]
  const [intent, ...names] = expected.split(' ')
  return { asked, intent: intent!, names }
})

t.test('what is asked, and about what', async (t) => {
  const wrong = rows.filter(({ asked, intent, names }) => {
    const { intent: own, model, node, id } = understand(asked, [], world)
    const found = [model, node?.name, id].filter((one) => one != null)
    const right = own === intent && found.join(' ') === names.join(' ')
    if (!right) t.comment(`${asked}: ${intent} ${names.join(' ')}; understood: ${own} ${found.join(' ')}`)
    return !right
  })
  t.comment(`${rows.length - wrong.length} of ${rows.length} questions understood`)
  t.ok(wrong.length <= rows.length * 0.03, 'at least 97 % are understood')
})
