import { mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createMeter, etaOf, percentOf, showSpan, type Amount } from '../cli/meter.js'
import { download, nodeOf, quickPace, sendError, sendJson, type Rig } from './verb-kit.js'
import type { DownloadStatus } from '../store/download.js'

/** A node whose download of acme/x goes through the given states and stays in the last one. */
async function downloading (
  t: Parameters<typeof nodeOf>[0], steps: readonly Partial<DownloadStatus>[]
): Promise<Rig> {
  let at = 0
  return await nodeOf(t, {
    'POST /store/models/acme/x/download': (response) => { sendJson(response, download(steps[0])) },
    'GET /store/models/acme/x/download/status': (response) => {
      at = Math.min(at + 1, steps.length - 1)
      sendJson(response, download(steps[at]))
    }
  })
}

t.test('svc pull follows to the end, and names the next command', async (t) => {
  const steps: Partial<DownloadStatus>[] = [{ status: 'pending', totalBytes: 0 },
    ...Array.from({ length: 50 }, (_, i) => ({ downloadedBytes: i * 20, bytesPerSecond: 10 })),
    { downloadedBytes: 400, bytesPerSecond: 10, etaMs: 61_000 },
    { downloadedBytes: 1000, progress: 1, status: 'complete' }]
  const pauses: number[] = []
  const node = await downloading(t, steps)
  const ran = await node.run(['pull', 'acme/x'], { pace: quickPace((n) => { pauses.push(n) }) })
  t.equal(ran.status, 0, ran.err)
  t.equal(ran.out, 'acme/x is in the store: 1000 B\n')
  const lines = ran.err.trim().split('\n')
  t.equal(lines.at(-1), 'next: ./svc place acme/x')
  t.same(lines.slice(0, -1), [
    'acme/x  waiting',
    ...Array.from({ length: 9 }, (_, i) => i + 1).map((i) =>
      `acme/x  ${i * 10} %  ${i * 100} B/1000 B  10 B/s  ETA ${showSpan((1000 - i * 100) * 100)}`),
    'acme/x  100 %  1000 B/1000 B'
  ], 'a line for each 10 %, never backwards')
  t.equal(pauses.length, steps.length - 1, 'asked once per pause')
  t.same(node.asked[1]!.body, {})
})

t.test('a download that does not move is not waited for without end', async (t) => {
  const node = await downloading(t, [{ downloadedBytes: 10 }, { downloadedBytes: 20 }])
  t.match(await node.run(['pull', 'acme/x']),
    { status: 4, err: /no progress for 6 minutes; the download/ })
})

t.test('svc pull says that a model has no chat template', async (t) => {
  const node = await nodeOf(t, {
    'POST /store/models/acme/x/download': (response) => {
      sendJson(response, download({ status: 'complete' }))
    },
    'GET /models/acme/x/card': (response) => {
      const support = { chat_template: 'its files have none' }
      sendJson(response, { card: { engine: 'x', family: 'y', support } })
    }
  })
  t.match(await node.run(['pull', 'acme/x']), { err: /^chat template: its files have none\nnext: /m })
})

t.test('svc pull on a terminal shows one line', async (t) => {
  const node = await downloading(t,
    [{ downloadedBytes: 10 }, { downloadedBytes: 20 }, { status: 'complete' }])
  const { err } = await node.run(['pull', 'acme/x'], { typed: '' })
  t.match(err, /\r\u001b\[Kacme\/x {2}1 % {2}10 B\/1000 B\r\u001b\[Kacme\/x {2}2 % /)
  t.match(err, /\nnext: \.\/svc place acme\/x\n$/)
})

t.test('svc pull --json: one status per line, the last one final', async (t) => {
  const same = { downloadedBytes: 10 }
  const node = await downloading(t, [same, same, same, { downloadedBytes: 500 }, { status: 'complete' }])
  const ran = await node.run(['pull', 'acme/x', '--json'])
  const lines = ran.out.trim().split('\n').map((line) => JSON.parse(line) as DownloadStatus)
  t.same(lines, [download(same), download({ downloadedBytes: 500 }), download({ status: 'complete' })],
    'only what changed')
  t.equal(ran.err, '')
  const failed = await (await downloading(t, [{}, { status: 'failed', error: 'gone', reason: 'stalled' }]))
    .run(['pull', 'acme/x', '--json'])
  t.equal(failed.status, 1)
  t.match(JSON.parse(failed.out.trim().split('\n').at(-1)!), { status: 'failed', reason: 'stalled' })
  t.match(JSON.parse(failed.err), { error: { exitCode: 1 } })
})

t.test('every end has its exit status', async (t) => {
  const cases: [Partial<DownloadStatus>, number, RegExp][] = [
    [{ status: 'failed', error: 'it\u001b[31m stalled', reason: 'stalled', downloadedBytes: 1 }, 1,
      /acme\/x could not be pulled: it \[31m stalled\n {2}the downloaded bytes are kept/],
    [{ status: 'failed', error: null, reason: null }, 1, /the node gave no reason/],
    [{ status: 'failed', error: 'needs 9 GiB', reason: 'no_safe_fit' }, 6, /needs 9 GiB/],
    [{ status: 'failed', error: 'no such model', reason: 'not_found' }, 3, /no such model/],
    [{ status: 'paused' }, 1, /`svc downloads resume acme\/x` resumes it/],
    [{ status: 'cancelled' }, 1, /was cancelled; `svc downloads resume acme\/x` resumes it/],
    [{ status: 'not_found' }, 3, /the store has no download/]
  ]
  for (const [end, status, err] of cases) {
    const node = await downloading(t, [{}, end])
    const ran = await node.run(['pull', 'acme/x'])
    t.match(ran, { status, out: /^$/, err }, JSON.stringify(end))
    t.notMatch(ran.err, '\u001b')
  }
  const refusals: [number, string, number][] = [
    [503, 'store_not_configured', 4], [404, 'model_not_found', 3], [409, 'download_running', 1]
  ]
  for (const [http, reason, status] of refusals) {
    const node = await nodeOf(t, {
      'POST /store/models/acme/x/download': (response) => { sendError(response, http, reason) }
    })
    t.match(await node.run(['pull', 'acme/x']), { status, err: new RegExp(reason) })
  }
})

t.test('svc pull tells that the node that is asked is the store now', async (t) => {
  const bodies: unknown[] = []
  const node = await nodeOf(t, {
    'POST /store/models/acme/x/download': (response, { body }) => {
      bodies.push(body)
      sendJson(response, { ...download({ status: 'complete' }), storeMade: '/data/store' })
    }
  })
  const ran = await node.run(['pull', 'acme/x:q4'])
  t.match(ran,
    { status: 0, err: /^the cluster had no store: this node is now the store host, in \/data\/store\n/ })
  t.same(bodies, [{ variant: 'q4' }])
  const json = await node.run(['pull', 'acme/x', '--json'])
  t.same(JSON.parse(json.out), download({ status: 'complete' }))
})

t.test('svc pull says before a byte moves whether the model fits, and what would', async (t) => {
  const GIB = 1024 ** 3
  const problem = 'attic: needs 9.00 GiB and can use 3.00 GiB.'
  const plan = {
    modelId: 'acme/x', hub: 'https://hub', commit: 'c', files: 2, totalBytes: 8 * GIB, variant: 'Q8_0',
    engine: 'gguf', weightsBytes: 8 * GIB,
    variants: [{ name: 'Q2_K', bytes: GIB, fits: true }, { name: 'Q8_0', bytes: 8 * GIB, fits: false }],
    disk: { node: 'attic', roomBytes: 90 * GIB, problem: null },
    memory: { neededBytes: 9 * GIB, nodes: [], problem, engineMissing: null }
  }
  const node = await nodeOf(t, {
    'GET /store/models/acme/x/download/plan': (response) => { sendJson(response, plan) },
    'POST /store/models/acme/x/download': (response) => {
      sendJson(response, download({ status: 'complete' }))
    }
  })
  const ran = await node.run(['pull', 'acme/x:Q8_0'])
  t.equal(ran.status, 0, 'the store may have what no node can run now')
  const says = 'acme/x: from https://hub: 2 files, 8.0 GiB (GGUF Q8_0)\n' +
    'store disk on attic: 90.0 GiB available\n' +
    'memory: the model needs at least 9.0 GiB, more than the cluster has free\n' +
    `warning: ${problem}\n  smaller variant: svc pull acme/x:Q2_K (1.0 GiB)`
  t.equal(ran.err.split('\nacme/x')[0], says)
  t.equal(node.asked[0]!.url, '/store/models/acme/x/download/plan?variant=Q8_0')
  for (const [status, reason, exit] of [[404, 'hub_not_found', 3], [403, 'hub_gated', 5]] as const) {
    const refusing = await nodeOf(t, {
      'GET /store/models/acme/x/download/plan': (response) => { sendError(response, status, reason) }
    })
    t.match(await refusing.run(['pull', 'acme/x']), { status: exit, err: new RegExp(reason) })
    t.same(refusing.requests(), ['GET /store/models/acme/x/download/plan'], 'and nothing has begun')
  }
})

t.test('svc pull says what it waits for, and begins nothing that the hub cannot serve', async (t) => {
  const refuse = (response: Parameters<typeof sendError>[0]): void => {
    sendError(response, 503, 'hub_unavailable')
  }
  const slow = await nodeOf(t, {
    'GET /store/models/acme/x/download/plan': (response) => { setTimeout(() => { refuse(response) }, 2200) }
  })
  t.match(await slow.run(['pull', 'acme/x']),
    { status: 4, err: /^waiting for the hub to list the files of acme\/x\n.*hub_unavailable/ })
  t.notOk(slow.requests().some((one) => one.startsWith('POST')))
  const known = await nodeOf(t, {
    'GET /store/models/acme/x/download/plan': refuse,
    'GET /models/acme/x/card': (response) => {
      sendJson(response, { card: { engine: 'x', family: 'y', support: {} } })
    },
    'POST /store/models/acme/x/download': (response) => {
      sendJson(response, download({ status: 'complete' }))
    }
  })
  t.match(await known.run(['pull', 'acme/x']), { status: 0, out: /is in the store/ })
})

t.test('a node that is busy in the middle is asked again', async (t) => {
  let asked = 0
  const node = await nodeOf(t, {
    'POST /store/models/acme/x/download': (response) => { sendJson(response, download()) },
    'GET /store/models/acme/x/download/status': (response) => {
      if (++asked === 1) sendError(response, 503, 'not_ready')
      else if (asked === 2) sendJson(response, download({ status: 'unheard-of' as 'pending' }))
      else sendJson(response, download({ status: 'complete' }))
    }
  })
  t.equal((await node.run(['pull', 'acme/x'])).status, 0)
  t.equal(asked, 3, 'a state it does not know is no end')
})

t.test('Ctrl-C leaves the download to the node', async (t) => {
  const stop = new AbortController()
  const node = await downloading(t, [{ downloadedBytes: 1 }])
  const ran = await node.run(['pull', 'acme/x'], {
    signal: stop.signal, pace: quickPace((n) => { if (n === 3) stop.abort() })
  })
  t.equal(ran.status, 130)
  t.match(ran.err, /the download continues; svc downloads shows it\n$/)
  t.notOk(node.requests().some((one) => one.startsWith('DELETE')))
  t.equal(node.asked.length, 4, 'nothing was asked after it')
})

t.test('svc pull --background returns at once', async (t) => {
  const node = await downloading(t, [{ status: 'pending' }])
  const ran = await node.run(['pull', 'acme/x', '--background'])
  t.same([ran.status, ran.out], [0, 'acme/x: pending\n'])
  t.match(ran.err, /svc downloads shows it/)
  t.equal(node.asked.length, 2)
  t.same(JSON.parse((await node.run(['pull', 'acme/x', '--background', '--json'])).out),
    download({ status: 'pending' }))
})

t.test('what is sent for a model', async (t) => {
  const node = await downloading(t, [{ status: 'complete' }])
  const cases: [string[], object][] = [
    [['acme/x@v2'], { revision: 'v2' }],
    [['acme/x@refs/pr/1', '--revision', 'refs/pr/1'], { revision: 'refs/pr/1' }],
    [['acme/x', '--revision', 'main', '--variant', 'q4'], { revision: 'main', variant: 'q4' }],
    [['acme/x:Q4_K_M'], { variant: 'Q4_K_M' }],
    [['acme/x@v2:q4', '--variant', 'q4'], { revision: 'v2', variant: 'q4' }],
    [['https://huggingface.co/acme/x/tree/v2'], { revision: 'v2' }],
    [['https://hf.co/acme/x?library=transformers#files'], {}],
    [['https://hf.co/acme/x/tree/refs%2Fpr%2F1/onnx'], { revision: 'refs/pr/1', allow: ['onnx/**'] }],
    [['https://huggingface.co/acme/x/tree/main:Q8_0'], { revision: 'main', variant: 'Q8_0' }],
    [['https://huggingface.co/acme/x/blob/main/x-Q4_K_M.gguf'], { revision: 'main', variant: 'x-Q4_K_M' }],
    [['https://huggingface.co/acme/x/resolve/v2/Q8/x-Q8_0-00001-of-00002.gguf?download=true'],
      { revision: 'v2', variant: 'x-Q8_0' }],
    [['https://huggingface.co/acme/x/resolve/main/mmproj-f16.gguf'],
      { revision: 'main', allow: ['mmproj-f16.gguf'] }],
    [['hf.co/acme/x/blob/main/onnx/model%20(2).onnx'], { revision: 'main', allow: ['onnx/model (2).onnx'] }],
    [['hf.co/acme/x@v2:q4'], { revision: 'v2', variant: 'q4' }],
    [['acme/x', '--allow', '*.onnx', 'voices/**'], { allow: ['*.onnx', 'voices/**'] }],
    [['acme/x', '--from', 'attic'], { source: 'node:attic' }]
  ]
  for (const [words, body] of cases) {
    t.equal((await node.run(['pull', ...words])).status, 0)
    t.same(node.asked.findLast(({ method }) => method === 'POST')?.body, body, words.join(' '))
  }
})

t.test('what is sent for a folder', async (t) => {
  const cwd = realpathSync(t.testdir({
    voice: { 'a.onnx': 'x' },
    carded: { 'card.yaml': 'title: A\nmodelId: "acme/x"  # mine\n' },
    crlf: { 'card.yaml': 'modelId: acme/x\r\n' },
    badly: { 'card.yaml': 'modelId: ../../etc\n' },
    nested: { 'card.yaml': 'other:\n  modelId: acme/y\n' },
    '.. My Model (v2)!': {},
    link: t.fixture('symlink', 'carded'),
    'file.txt': 'x',
    'Smol-Q4_1-00001-of-00002.gguf': 'x',
    mini: { onnx: { 'model_q4.onnx': 'x' } },
    'my voice': { 'en_US-amy.onnx': 'x' }
  }))
  mkdirSync(join(cwd, 'acme', 'x'), { recursive: true })
  writeFileSync(join(cwd, 'acme', 'x', 'card.yaml'), 'modelId: 5\n')
  const cases: [string[], string, string][] = [
    [['./voice'], 'local/voice', 'voice'],
    [['voice'], 'local/voice', 'voice'],
    [['./voice', '--as', 'acme/x'], 'acme/x', 'voice'],
    [[join(cwd, 'carded')], 'acme/x', 'carded'],
    [['~/carded'], 'acme/x', 'carded'],
    [['crlf'], 'acme/x', 'crlf'],
    [['link'], 'acme/x', 'carded'],
    [['badly'], 'local/badly', 'badly'],
    [['nested'], 'local/nested', 'nested'],
    [['acme/x'], 'local/x', 'acme/x'],
    [['.. My Model (v2)!'], 'local/My-Model-v2', '..%20My%20Model%20(v2)!'],
    [['Smol-Q4_1-00001-of-00002.gguf'], 'local/Smol-Q4_1', 'Smol-Q4_1-00001-of-00002.gguf'],
    [['./mini/onnx/model_q4.onnx'], 'local/mini', 'mini/onnx/model_q4.onnx'],
    [['~/my voice/en_US-amy.onnx'], 'local/en_US-amy', 'my%20voice/en_US-amy.onnx'],
    [['mini/onnx/model_q4.onnx', '--as', 'acme/mini'], 'acme/mini', 'mini/onnx/model_q4.onnx']
  ]
  const answers = Object.fromEntries([...new Set(cases.map(([, modelId]) => modelId))].map((modelId) =>
    [`POST /store/models/${modelId}/download`, (response: Parameters<typeof sendJson>[0]) => {
      sendJson(response, download({ modelId, status: 'complete' }))
    }]))
  const node = await nodeOf(t, answers)
  for (const [words, modelId, folder] of cases) {
    const ran = await node.run(['pull', ...words], { cwd, env: { HOME: cwd } })
    t.equal(ran.status, 0, ran.err)
    t.match(node.asked.findLast(({ method }) => method === 'POST'), {
      url: `/store/models/${modelId}/download`, body: { source: `file://${cwd}/${folder}` }
    }, words.join(' '))
  }
  await node.run(['pull', 'voice', '--revision', 'mine'], { cwd })
  t.match(node.asked.findLast(({ method }) => method === 'POST'), { body: { revision: 'mine' } })
})

t.test('what makes no sense is refused before anything is asked', async (t) => {
  const cwd = t.testdir({ voice: {}, 'm.gguf': 'x', 'm.safetensors': 'x' })
  const node = await nodeOf(t, {})
  const cases: [string[], RegExp][] = [
    [['acme'], /"acme" is not a model id: expected org\/name/],
    [['acme/..'], /is not a model id/],
    [['acme/x@'], /the revision after @ is missing/],
    [['acme/x@a', '--revision', 'b'], /two revisions: @a and --revision b/],
    [['acme/x:'], /the text after : must name a variant/],
    [['acme/x:a/b'], /such as acme\/x:Q4_K_M/],
    [['acme/x:q4', '--variant', 'q8'], /two variants: :q4 and --variant q8/],
    [['acme/x:q4', '--from', 'attic'], /--variant cannot be combined with --from/],
    [['https://huggingface.co/datasets/acme/x'], /"https:\/\/huggingface.co\/datasets.* is not a model id/],
    [['https://huggingface.co/spaces/acme/x/tree/main'], /is not a model id/],
    [['https://huggingface.co/acme/x/tree/a%zz'], /cannot decode a%zz/],
    [['acme/x', '--as', 'acme/y'], /--as is allowed only for a folder or file/],
    [['acme/x', '--from', 'attic', '--variant', 'q4'], /--variant cannot be combined with --from/],
    [['./voice', '--variant', 'q4'], /--variant is not allowed for a folder or file/],
    [['m.gguf', '--allow', '*'], /--allow is not allowed for a file/],
    [['m.safetensors'], /m\.safetensors is not a folder, \.gguf or \.onnx file/],
    [['./m.gguf', '--from', 'attic'], /--from is not allowed for a folder or file/],
    [['./voice', '--as', 'acme'], /"acme" is not a model id/],
    [['./none'], /there is no folder or file .*none/]
  ]
  for (const [words, err] of cases) {
    t.match(await node.run(['pull', ...words], { cwd }), { status: 2, out: /^$/, err }, words.join(' '))
  }
  t.same(node.asked, [])
})

t.test('meters', async (t) => {
  const meter = createMeter('m')
  const amount = (downloadedBytes: number, totalBytes: number, bytesPerSecond = 0): Amount =>
    ({ downloadedBytes, totalBytes, bytesPerSecond, etaMs: null })
  const at = (...given: Parameters<typeof amount>): string => meter(amount(...given)).text
  t.equal(at(0, 0), 'm  waiting')
  t.equal(at(512, 0), 'm  512 B', 'the total is not known yet')
  t.equal(at(1024, 4096, 1024), 'm  25 %  1.0 KiB/4.0 KiB  1.0 KiB/s  ETA 3s')
  t.equal(at(512, 4096), 'm  25 %  1.0 KiB/4.0 KiB', 'begun anew: it stays where it was')
  t.equal(at(4095, 4096), 'm  99 %  4.0 KiB/4.0 KiB', '100 only for all of it')
  t.equal(percentOf(amount(9, 3)), 100)
  t.equal(etaOf(amount(5, 3, 1)), 0)
  t.same([59_000, 60_000, 4_320_000, 90_000_000, 0, 1].map(showSpan),
    ['59s', '1m', '1h12m', '1d1h', '0s', '1s'])
})
