import t, { type Test } from 'tap'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { dial, headOf, refusal, type Answer } from './http.js'
import { figure, pick, until } from './kit.js'
import {
  copiesOf, events, folderOf, incoming, isCopy, listing, makeModel, MIB, pull, put, stage, startSite,
  type CreatedModel, type Place
} from './staging-kit.js'

const LONG = 'a'.repeat(10_000)
/** Hostile model ids as they occur in an address: raw, and encoded once and twice. */
const IDS = ['../../secret', '..%2f..%2fsecret', '..%2F..%2Fsecret', '%2e%2e/%2e%2e/secret',
  '%252e%252e%252fsecret',
  'a/../b', 'a/..', '../a', 'a%2f..%2f..%2fsecret', '..%5c..%5csecret', 'a%5cb/c', 'a/b%5c..%5cc', 'a%00/b',
  'a/b%00', 'a%2fb%00.txt', 'a--b/c', 'CON/x', 'x/con', 'x/NUL.txt', 'aux/x', 'x/lpt1', 'a./b', 'a/b.',
  'a/..b..',
  '.incoming/x', '.trash/x', '-a/b', 'a/-b', '%2Fetc/passwd', '%2fetc%2fpasswd', '//etc/passwd', 'a//b',
  'a/b/c',
  'a', '%20/%20', 'a/%0d%0ax', 'a/%ff', 'a/%', 'C:%5cx/y', 'a/b%3fc', `${LONG}/x`, `x/${LONG}`, '~/x',
  'a/b;c',
  '%C3%A9/x', 'a/%E2%80%AEb']
/** Hostile model ids that HTTP clients refuse to send. */
const RAW = ['a/b\0c', '..\\..\\secret', 'a/b c', 'a/\u00e9', 'a/b\tc']

const ROUTES: [string, (id: string) => string, object?][] = [
  ['GET', (id) => `/store/models/${id}/manifest`],
  ['GET', (id) => `/store/models/${id}/manifest?from=self`],
  ['GET', (id) => `/store/models/${id}/files/x.txt`],
  ['GET', (id) => `/store/models/${id}/download/status`],
  ['POST', (id) => `/store/models/${id}/download`, {}],
  ['POST', (id) => `/store/models/${id}/download/pause`, {}],
  ['POST', (id) => `/store/models/${id}/stage`, {}],
  ['DELETE', (id) => `/store/models/${id}/download`],
  ['DELETE', (id) => `/store/models/${id}`],
  ['GET', (id) => `/models/${id}/card`],
  ['DELETE', (id) => `/models/custom/${id}`]
]

const PATHS = ['../secret.txt', '..%2fsecret.txt', '..%2F..%2Fsecret.txt', '%2e%2e%2fsecret.txt',
  '%252e%252e%252fsecret.txt',
  'sub/../../secret.txt', 'sub%2f..%2f..%2fsecret.txt', '..%5csecret.txt', 'sub%5ctext.txt',
  '%2fetc%2fpasswd',
  '/etc/passwd', 'text.txt%00', 'text.txt%00.bin', '%00', '.svc-record.json', '.last_used', './text.txt',
  'sub//text.txt',
  'sub', 'sub/', '', 'CON', 'text.txt.', 'C:%5cx', 'a%0d%0ab', '%ff', '%', LONG,
  Array(20).fill('a').join('/')]

type Said = Pick<Answer, 'status' | 'text' | 'json'>

/** Files that a running node creates and deletes, so they are not compared. */
const LIVELY = /home\/audit\/heads|(^|\/)(events|state|run|logs|staging\/\.incoming|hub)(\/|$)|\.tmp/

t.test('two nodes and a store', async (t) => {
  const site = await startSite(t)
  const [first, second] = site.nodes as [Place, Place]
  const roots = [...site.nodes.map(({ home }) => dirname(home)), dirname(site.store)]
  const model = makeModel(t, 'acme/real', { 'text.txt': Buffer.from('the text'),
    'sub/text.txt': Buffer.from('more') })
  await put(site, model)
  t.match(await stage(second, model.modelId, [second]), [{ status: 'complete' }])
  for (const below of roots) {
    writeFileSync(join(below, 'secret.txt'), 'SECRET')
    mkdirSync(join(below, 'secret'))
    writeFileSync(join(below, 'secret/keep.txt'), 'SECRET')
  }
  const look = (): string[] => roots.flatMap((below) => listing(below).filter((name) => !LIVELY.test(name)))
  const before = look()
  /** Whether an answer is a refusal with a reason and without any secret. */
  const refused = ({ status, text, json }: Said): boolean =>
    [400, 404, 409, 414].includes(status) && !text.includes('SECRET') &&
    typeof refusal({ json })?.reason === 'string' && text.length < 4000
  const bad: string[] = []
  const check = (what: string, answer: Said): void => {
    const ok = refused(answer)
    if (!ok) bad.push(`${what.slice(0, 120)}: ${answer.status} ${answer.text.slice(0, 300)}`)
  }
  const none = (t: Test): void => {
    t.strictSame(bad.splice(0), [], 'every one is refused with a reason')
    t.strictSame(look(), before, 'no file came or went')
    for (const below of roots) t.equal(readFileSync(join(below, 'secret/keep.txt'), 'utf8'), 'SECRET')
  }

  await t.test('T-D06: model ids in addresses', async (t) => {
    for (const node of site.nodes) {
      for (const id of IDS) {
        await Promise.all(ROUTES.map(async ([method, path, body]) => {
          const answer = await node.ask(path(id), { method, ...body === undefined ? {} : { body } })
          check(`${node.name} ${method} ${path(id)}`, answer)
        }))
      }
    }
    none(t)
    figure(t, 'T-D06', t.passing(), { asked: IDS.length * ROUTES.length * 2, escapes: 0 })
  })

  await t.test('in forms that no client sends', async (t) => {
    for (const id of RAW) {
      for (const [method, path] of ROUTES.filter(([method]) => method !== 'POST')) {
        const raw = await dial(first.node.port)
        raw.socket.write(headOf(first.node, method, path(id), ['connection: close']))
        await raw.closed
        const status = Number(/^HTTP\/1\.1 (\d+)/.exec(raw.text())?.[1])
        const json = JSON.parse(/\{.*\}/s.exec(raw.text())?.[0] ?? 'null') as unknown
        check(`${method} ${JSON.stringify(path(id))}`, { status, text: raw.text(), json })
      }
    }
    none(t)
  })

  await t.test('paths of files', async (t) => {
    for (const node of site.nodes) {
      for (const from of ['store', 'self']) {
        await Promise.all(PATHS.map(async (path) => {
          const url = `/store/models/acme/real/files/${path}?from=${from}`
          check(`${node.name} ${url}`, await node.ask(url))
        }))
      }
    }
    none(t)
    t.match(await second.ask('/store/models/acme/real/files/sub/text.txt'), { status: 200, text: 'more' })
    t.match(await second.ask('/store/models/acme/real/files/sub%2ftext.txt'), { status: 200, text: 'more' })
  })

  await t.test('ids and sources in bodies', async (t) => {
    const ids = ['../../secret', 'a/../b', 'a--b/c', 'CON/x', 'a\0/b', 'a\\b/c', LONG, `x/${LONG}`, '', ' ',
      'a',
      'a/b/c', '/etc/passwd', '.incoming/x', 'a/\u202eb']
    for (const node of site.nodes) {
      for (const modelId of ids) {
        check(`purge ${modelId}`, await node.ask('/store/purge-staging', { body: { modelId } }))
        check(`add ${modelId}`, await node.ask('/models/add', { body: { source: modelId } }))
        const { json } = await node.ask('/models/acme/real/card')
        const { card } = json as { card: object }
        check(`card ${modelId}`, await node.ask('/models/add', { body: { card: { ...card, modelId } } }))
        if (modelId !== '') {
          check(`stage on ${modelId}`, await node.ask('/store/models/acme/real/stage',
            { body: { nodeIds: [modelId] } }))
        }
      }
      const sources = ['file://host/etc', 'file:///etc/passwd', 'file:///no/such/folder', 'file:///proc/self',
        `file://${dirname(first.home)}%2f..`, 'file:relative', 'http://127.0.0.1/x', 'ftp://x/y',
        'node:../../x',
        'node:', 'node:nobody', LONG, '', '\0']
      for (const source of sources) {
        const answer = await node.ask('/store/models/acme/new/download', { body: { source } })
        if (answer.status !== 200) { check(`${node.name} ${source}`, answer); continue }
        const end = await until(`the end of ${source}`, async () => {
          const { json } = await node.ask('/store/models/acme/new/download/status')
          const state = json as { status: string, error: string | null }
          return !['pending', 'downloading'].includes(state.status) && state
        })
        if (end.status !== 'failed' || end.error === null) bad.push(`${source}: ${JSON.stringify(end)}`)
      }
    }
    none(t)
  })

  await t.test('a folder of a node, and its home', async (t) => {
    const { folder, modelId } = makeModel(t, 'acme/hostile', { 'text.txt': 10 })
    const authorities = ['read', 'operator', 'cluster:write']
    const made = await first.ask('/v1/tokens', { body: { label: 'ops', authorities } })
    const { token } = made.json as { token: string }
    for (const node of site.nodes) {
      const path = `/store/models/${modelId}/download`
      const of = (at: string): object => ({ source: pathToFileURL(at).href })
      if (node === first) {
        t.match(await node.ask(path, { token, body: of(folder) }),
          { status: 403, json: { error: { reason: 'missing_grant' } } }, 'an operator from elsewhere')
      }
      for (const at of [node.home, join(node.home, 'devices'), dirname(node.home)]) {
        const answer = await node.ask(path, { body: of(at) })
        const end = answer.status !== 200 ? answer : await until('its end', async () => {
          const status = await node.ask(`${path}/status`)
          return !/"(pending|downloading)"/.test(status.text) && status
        })
        t.match(end.text, /home folder of a node|is not a folder|cannot read|has no/, `${at} at ${node.name}`)
        t.notMatch(end.text, '"complete"')
      }
    }
    t.notOk(existsSync(folderOf(site.store, modelId)))
    t.strictSame(look(), before)
  })

  await t.test('a model folder with links and names that are refused', async (t) => {
    const hostile: [string, (at: string) => void][] = [
      ['a link', (at) => { symlinkSync('/etc/passwd', join(at, 'link.txt')) }],
      ['a linked folder', (at) => { symlinkSync('/etc', join(at, 'linked')) }],
      ['a backslash', (at) => { writeFileSync(join(at, 'a\\b'), 'x') }],
      ['a newline', (at) => { writeFileSync(join(at, 'a\nb'), 'x') }]
    ]
    for (const [what, make] of hostile) {
      for (const node of site.nodes) {
        const { folder, modelId } = makeModel(t, 'acme/hostile', { 'text.txt': 10 })
        make(folder)
        const answer = await node.ask(`/store/models/${modelId}/download`,
          { body: { source: pathToFileURL(folder).href } })
        const end = answer.status !== 200 ? answer.json
          : await until('its end', async () => {
              const { json } = await node.ask(`/store/models/${modelId}/download/status`)
              const { status } = json as { status: string }
              return !['pending', 'downloading'].includes(status) && json as object
            })
        const failed = answer.status === 400 || (end as { status: string }).status === 'failed'
        t.ok(failed, `${what} at ${node.name}: ${JSON.stringify(end).slice(0, 300)}`)
      }
    }
    t.notOk(existsSync(folderOf(site.store, 'acme/hostile')))
    t.strictSame(look(), before)
    const own = makeModel(t, 'acme/own', { 'text.txt': 10 })
    writeFileSync(join(own.folder, '.svc-record.json'), '{"format":1}')
    await put(site, own)
    t.ok(isCopy(folderOf(site.store, own.modelId), own.sha256), 'a record that came along counts for nothing')
    t.equal((await first.ask('/store/models/acme/own/files/.svc-record.json')).status, 400)
  })
})

/** Transfer events on the receiving node. */
async function progressOf (at: Place): Promise<unknown[]> {
  const found = await events(at, 'NodeDownloadProgress')
  return found.filter((event) => event['nodeId'] === at.node.nodeId).map((event) => event['status'])
}

t.test('T-D11: everything at once', async (t) => {
  const site = await startSite(t, { config: () => ({ model_store: { upload_mib_per_second: 30 } }) })
  const [first, second] = site.nodes as [Place, Place]
  const model = makeModel(t, 'acme/race', { 'weights.data': pick(20, 60) * MIB, 'small.txt': 10 })
  const source = pathToFileURL(model.folder).href
  const whole = (at: string): boolean => isCopy(folderOf(at, model.modelId), model.sha256)
  const absent = (at: string): boolean => !existsSync(folderOf(at, model.modelId))
  const fine = (t: Test, what: string, answers: readonly Answer[]): void => {
    const bad = answers.filter(({ status }) => ![200, 404, 409, 503].includes(status))
    t.strictSame(bad.map(({ status, text }) => `${status} ${text.slice(0, 300)}`), [], what)
  }

  await t.test('two pulls of the same folder', async (t) => {
    const path = `/store/models/${model.modelId}/download`
    const answers = await Promise.all([1, 2].map(() => first.ask(path, { body: { source } })))
    fine(t, 'pulls', answers)
    t.ok(answers.every(({ status }) => status === 200), 'they are one download')
    t.match(await pull(first, model.modelId, { source }), { status: 'complete' })
    t.ok(whole(site.store))
    t.equal((await events(first, 'ModelStored')).length, 1, 'stored once')
  })

  await t.test('staged twice from two nodes, and purged at the same moment', async (t) => {
    await until('n2 to know the model', async () => (await copiesOf(second, model.modelId)).length > 0)
    for (let n = 0; n < pick(2, 10); n++) {
      const began = (await progressOf(second)).length
      const body = { nodeIds: [second.name], wait: true }
      const path = `/store/models/${model.modelId}/stage`
      const stagings = [first, second].map((node) => node.ask(path, { body }))
      await until('the transfer to begin', async () =>
        (await second.state()).downloads[second.node.nodeId] !== undefined)
      const purge = await second.ask('/store/purge-staging', { body: { modelId: model.modelId } })
      const answers = await Promise.all(stagings)
      fine(t, 'all', [purge, ...answers])
      const said = answers.flatMap(({ json }) => (json as { nodes: unknown[] }).nodes)
      t.match(said, [{ status: 'complete', error: null }, { status: 'complete', error: null }])
      t.ok(whole(second.staging), 'whole')
      const progress = await until('the event of its end', async () => {
        const found = (await progressOf(second)).slice(began)
        return found.includes('completed') && found
      })
      t.strictSame(progress, ['pending', 'completed'], 'one transfer')
      t.match(purge.json, { nodes: Array })
      t.match(await second.ask('/store/purge-staging', { body: {} }), { status: 200 })
      t.ok(absent(second.staging))
    }
  })

  await t.test('pulled, staged and removed at once', async (t) => {
    for (let n = 0; n < pick(3, 15); n++) {
      const path = `/store/models/${model.modelId}`
      const answers = await Promise.all([
        first.ask(`${path}/download`, { body: { source } }),
        second.ask(`${path}/stage`, { body: { wait: true, timeout_seconds: 30 } }),
        (n % 2 === 0 ? first : second).ask(path, { method: 'DELETE' }),
        first.ask(`${path}/download`, { body: { source } })
      ])
      fine(t, `round ${n}`, answers)
      const { status } = await until('the end of the download', async () => {
        const { json } = await first.ask(`${path}/download/status`)
        const state = json as { status: string }
        return !['pending', 'downloading'].includes(state.status) && state
      })
      t.ok(status === 'complete' ? whole(site.store) : absent(site.store), `the store: ${status}`)
      t.ok(whole(second.staging) || absent(second.staging), 'the copy: whole or not there')
      await first.ask(`${path}`, { method: 'DELETE' })
      t.ok(absent(site.store) && absent(second.staging), 'all is gone')
      await until('no work in progress', () => incoming(site.store).length === 0)
    }
    t.equal((await pull(first, model.modelId, { source })).status, 'complete')
  })

  await t.test('another model under the same name replaces the first', async (t) => {
    t.match(await stage(second, model.modelId, [second]), [{ status: 'complete' }])
    const next: CreatedModel = makeModel(t, model.modelId, { 'other.data': 3 * MIB })
    await put(site, next)
    t.ok(isCopy(folderOf(site.store, model.modelId), next.sha256), 'the store has the new one alone')
    t.ok(whole(second.staging), 'a staged copy stays until it is staged again')
    t.match(await stage(first, model.modelId, [second]), [{ status: 'complete' }])
    t.ok(isCopy(folderOf(second.staging, model.modelId), next.sha256), 'then it is the new one alone')
  })
})
