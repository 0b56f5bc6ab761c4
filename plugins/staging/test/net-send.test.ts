import { symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { sendFile, UploadLimiter, type SendableFile, type SendParts } from '../peers/send-file.js'
import { gguf, llama } from './cards-kit.js'
import { sha256 } from './files-kit.js'
import { errorOf, fakeRequest, pull, scratch, startNode, type FakeRequest } from './manager-kit.js'
import { bytesOf } from './transfer-kit.js'

const LLAMA = gguf(llama)
const BIG = bytesOf(700_001, 3)
const ETAG = `"${sha256(BIG)}"`

interface Got { status: number, headers: Record<string, unknown>, body: Buffer, whole: boolean }

function get (url: string, headers: Record<string, string> = {}, most = Infinity): Promise<Got> {
  return new Promise((resolve, reject) => {
    const call = httpRequest(url, { headers, agent: false }, (answer) => {
      const parts: Buffer[] = []
      let size = 0
      const end = (whole: boolean): void => {
        resolve({ status: answer.statusCode!, headers: answer.headers, body: Buffer.concat(parts), whole })
      }
      answer.on('data', (part: Buffer) => {
        parts.push(part)
        size += part.length
        if (size >= most) { call.destroy(); end(false) }
      })
      answer.on('end', () => { end(answer.complete) })
      answer.on('error', () => { end(false) })
    })
    call.on('error', reject)
    call.end()
  })
}

t.test('files over HTTP', async (t) => {
  const [store, source] = [scratch(t), scratch(t)]
  writeFileSync(join(source, 'm.gguf'), LLAMA)
  writeFileSync(join(source, 'big.txt'), BIG)
  writeFileSync(join(source, 'empty.txt'), '')
  const rig = await startNode(t, { store })
  t.match(await pull(rig, 'acme/m', { source: pathToFileURL(source).href }), { status: 'complete' })
  const base = `${await rig.listen()}/store/models/acme/m/files/`
  const url = `${base}big.txt`

  await t.test('whole', async (t) => {
    const got = await get(url)
    t.match(got, {
      status: 200,
      whole: true,
      headers: {
        etag: ETAG, 'accept-ranges': 'bytes', 'content-length': '700001',
        'content-type': 'application/octet-stream'
      }
    })
    t.equal(got.headers['content-range'], undefined)
    t.equal(got.headers['content-encoding'], undefined)
    t.ok(got.body.equals(BIG))
    t.ok((await get(`${base.replace('acme/m', 'acme%2Fm')}big.txt`)).body.equals(BIG),
      'also with an escaped slash')
  })

  const ranges: [string, number, number][] = [
    ['bytes=0-0', 0, 1], ['bytes=700000-', 700_000, 700_001], ['bytes=-5', 699_996, 700_001],
    ['bytes=262143-262145', 262_143, 262_146], ['bytes=1-9999999', 1, 700_001]
  ]
  for (const [range, start, end] of ranges) {
    const got = await get(url, { range })
    t.match(got, {
      status: 206, headers: {
        etag: ETAG, 'content-range': `bytes ${start}-${end - 1}/700001`, 'content-length': String(end - start)
      }
    }, range)
    t.ok(got.body.equals(BIG.subarray(start, end)), range)
  }

  await t.test('what makes no sense is ignored, as are several ranges', async (t) => {
    for (const range of ['bytes=5-2', 'bytes=0-1,5-6', 'lines=1-2', 'bytes=x']) {
      const got = await get(url, { range })
      t.match(got, { status: 200, headers: { 'content-length': '700001' } }, range)
    }
  })

  await t.test('a range beyond the file is 416 range_not_satisfiable', async (t) => {
    const beyond: [string, string][] = [
      ['big.txt', 'bytes=700001-'], ['empty.txt', 'bytes=0-'], ['big.txt', 'bytes=-0']
    ]
    for (const [path, range] of beyond) {
      const got = await get(base + path, { range })
      t.match(got, { status: 416, headers: { 'content-type': /json/ } }, range)
      t.match(JSON.parse(got.body.toString()), { error: { reason: 'range_not_satisfiable' } })
    }
  })

  await t.test('If-Range', async (t) => {
    const range = 'bytes=1-2'
    t.match(await get(url, { range, 'if-range': ETAG }), { status: 206 })
    for (const other of [`"${'0'.repeat(64)}"`, `W/${ETAG}`, 'Sat, 01 Jan 2022 00:00:00 GMT', sha256(BIG)]) {
      t.match(await get(url, { range, 'if-range': other }), { status: 200 }, other)
    }
    t.match(await get(url, { range: 'bytes=999999999-', 'if-range': '"other"' }), { status: 200 },
      'a range of another version is not even looked at')
  })

  await t.test('HEAD: how the answer to GET begins, and no body', async (t) => {
    const url = `${base}big.txt`
    for (const headers of [{}, { range: 'bytes=1-2' }]) {
      const [head, body] = [await fetch(url, { method: 'HEAD', headers }), await fetch(url, { headers })]
      t.equal(head.status, body.status)
      for (const name of ['content-length', 'content-range', 'etag', 'accept-ranges', 'content-type']) {
        t.equal(head.headers.get(name), body.headers.get(name), name)
      }
      t.equal((await head.arrayBuffer()).byteLength, 0)
      await body.arrayBuffer()
    }
    t.equal((await fetch(`${base}none.txt`, { method: 'HEAD' })).status, 404)
    t.equal((await fetch(url, { method: 'HEAD', headers: { range: 'bytes=999999999-' } })).status, 416)
  })

  await t.test('an empty file', async (t) => {
    const got = await get(`${base}empty.txt`)
    t.match(got, { status: 200, whole: true, headers: { 'content-length': '0' } })
    t.equal(got.body.length, 0)
  })

  await t.test('what is no file of the model', async (t) => {
    const refused: [string, number][] = [
      ['none.txt', 404], ['.svc-record.json', 400], ['..%2f..%2fx', 400], ['a%00b', 400],
      ['a//b', 400], [`${'a/'.repeat(9)}b`, 400], ['', 400]
    ]
    for (const [path, status] of refused) {
      const answer = await rig.inject({ url: `/store/models/acme/m/files/${path}` })
      t.equal(answer.statusCode, status, `${JSON.stringify(path)}: ${answer.body.slice(0, 200)}`)
    }
    t.match((await rig.inject({ url: '/store/models/acme/none/files/x' })).json(),
      { error: { reason: 'model_not_found' } })
    t.equal((await rig.inject({ url: '/store/models/acme/m/files/big.txt?from=mars' })).statusCode, 400)
  })

  await t.test('a client that goes away leaves the node as it was', async (t) => {
    t.notOk((await get(url, {}, 1000)).whole)
    t.ok((await get(url)).body.equals(BIG))
    t.notOk(rig.logged.some(({ level }) => level === 'error'), JSON.stringify(rig.logged.filter((l) =>
      l.level === 'error').map(({ message, fields }) => [message, String(fields['err'])])))
  })
})

t.test('a slow uplink is shared by all readers and still gives every byte', async (t) => {
  const [store, source] = [scratch(t), scratch(t)]
  writeFileSync(join(source, 'm.gguf'), LLAMA)
  writeFileSync(join(source, 'big.txt'), BIG)
  const rig = await startNode(t, { store, more: { upload_mib_per_second: 4 } })
  await pull(rig, 'acme/m', { source: pathToFileURL(source).href })
  const url = `${await rig.listen()}/store/models/acme/m/files/big.txt`
  const got = await Promise.all([1, 2, 3].map(async () => await get(url)))
  t.ok(got.every(({ body }) => body.equals(BIG)))
})

interface Case { file?: Partial<SendableFile>, parts?: Partial<SendParts>, request?: FakeRequest }

async function send (folder: string,
  { file = {}, parts = {}, request = fakeRequest() }: Case): Promise<FakeRequest> {
  await sendFile(request, {
    folder, path: 'f', size: BIG.length, sha256: sha256(BIG), has: () => true, ...file
  }, { uplink: new UploadLimiter(null, manualClock()), error: errorOf, ...parts })
  return request
}

t.test('sendFile asks whether the range is there before it says anything: chunk_not_here', async (t) => {
  const folder = scratch(t)
  writeFileSync(join(folder, 'f'), BIG)
  const asked: unknown[] = []
  const has = (range: unknown): boolean => { asked.push(range); return false }
  const request = fakeRequest({ headers: { range: 'bytes=10-19' } })
  await t.rejects(send(folder, { file: { has }, request }), {
    name: 'SvcError', reason: 'chunk_not_here', status: 409, retryable: true, message: /bytes 10 to 20/
  })
  t.same(asked, [{ start: 10, end: 20 }])
  t.equal(request.head, undefined)
  await t.rejects(send(folder, { file: { has } }), { name: 'SvcError', reason: 'chunk_not_here' },
    'also for all of it')
})

t.test('sendFile breaks off when the file is shorter than it must be, and never follows a link',
  async (t) => {
    const folder = scratch(t)
    writeFileSync(join(folder, 'f'), BIG)
    truncateSync(join(folder, 'f'), 1000)
    const request = fakeRequest()
    await t.rejects(send(folder, { request }), { message: /ended at 1000, 699001 bytes early/ })
    t.equal(request.sent.length, 1000)
    symlinkSync('/etc/passwd', join(folder, 'link'))
    await t.rejects(send(folder, { file: { path: 'link' } }), { name: 'PathError' })
    await t.rejects(send(folder, { file: { path: '../f' } }), { name: 'PathError' })
    await t.rejects(send(folder, { file: { path: 'none' } }), { code: 'ENOENT' })
  })

t.test('sendFile waits for the uplink before each piece and leaves with the client', async (t) => {
  const folder = scratch(t)
  writeFileSync(join(folder, 'f'), BIG)
  const clock = manualClock()
  const abort = new AbortController()
  const request = fakeRequest({ signal: abort.signal })
  const sent = send(folder, { request, parts: { uplink: new UploadLimiter(256 * 1024, clock) } })
  const waiting = async (bytes: number): Promise<void> => {
    while (request.sent.length < bytes) await new Promise((resolve) => { setImmediate(resolve) })
    for (let i = 0; i < 20; i++) await new Promise((resolve) => { setImmediate(resolve) })
    t.equal(request.sent.length, bytes)
  }
  await waiting(256 * 1024)
  await clock.advance(999)
  await waiting(256 * 1024)
  await clock.advance(1)
  await waiting(512 * 1024)
  abort.abort(new Error('the client is gone'))
  await t.rejects(sent, { message: 'the client is gone' })
})
