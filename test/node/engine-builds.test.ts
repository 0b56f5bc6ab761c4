/**
 * A running node without llama-server installs a build of it, which image models need. A stub takes the place
 * of the real llama-server.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { KNOWN_TAG } from '../../plugins/llama-cpp/builds/release.js'
import { archiveOf, nameOf, sha256, startReleases } from '../../plugins/llama-cpp/test/builds-kit.js'
import { folder } from '../../plugins/llama-cpp/test/llama-kit.js'
import { gguf, llama } from '../../plugins/staging/test/cards-kit.js'
import { ask } from './http.js'
import { fixture, startNode, svc } from './kit.js'

const MODEL = 'test/gguf'
const SCRIPT = fileURLToPath(
  new URL('../../plugins/llama-cpp/test/fixtures/llama-server.mjs', import.meta.url))
const config = { plugins: {
  gguf: { module: fixture('gguf.mjs') }, placement: { autoplace: [] },
  // A confined runner could not write the stand-in's journal, which is outside its folders.
  runners: { confine: false }
} }

/** Writes a stub llama-server as the content of a build. */
function standIn (directory: string): string {
  const journal = join(directory, 'journal')
  writeFileSync(journal, '')
  return '#!/bin/sh\ncase "$1" in --version|--list-devices) exit 0;; esac\n' +
    `exec '${process.execPath}' '${SCRIPT}' '${JSON.stringify({ journal })}' "$@" "$0"\n`
}

const gpu = readdirSync('/dev').some((name) => /^nvidia\d+$/.test(name))

t.test('verbs install the build that a model needs', {
  timeout: 120_000, skip: gpu && 'a build for CUDA would be fetched'
}, async (t) => {
  const directory = folder(t)
  const archive = archiveOf(KNOWN_TAG, { server: standIn(directory) })
  const { url, asked } = await startReleases(t, { [KNOWN_TAG]: { [nameOf(KNOWN_TAG)]: { bytes: archive } } })
  const node = await startNode(t, { config: { ...config, engines: { url } }, ready: false })
  const env = { NODE_TLS_REJECT_UNAUTHORIZED: '0' }
  const verb = async (...words: string[]) =>
    await svc([...words, '--home', node.home, '--url', node.url], { env })
  const model = join(directory, 'made')
  mkdirSync(model)
  writeFileSync(join(model, 'm.gguf'), gguf(llama))
  writeFileSync(join(model, 'mmproj-m.gguf'), gguf(llama))
  const pulled = await verb('pull', model)
  t.match(pulled, { status: 0, stderr: /which no node has: run `svc engine add llama\.cpp`\nnext: / })

  const refused = await verb('place', MODEL)
  t.match(refused, { status: 1, stderr: /run `svc engine add llama\.cpp` there[^]*400 engine_missing/ })
  t.same(asked, [], 'nobody was asked, so nothing is fetched')
  t.match(await verb('place', MODEL, '--yes'),
    { status: 1, stderr: /downloading llama\.cpp b\d+ for \w+ \(.*[^]*does not have the expected digest/ },
    'the stand-in is not what svc knows under that name')
  t.match(await verb('engine', 'add', 'llama.cpp', '--sha256', sha256(archive)), { status: 0 })
  const placed = await verb('place', MODEL)
  t.equal(placed.status, 0, placed.stderr)
  t.match(await verb('run', MODEL, 'Hello'), { status: 0 })
  t.match(await verb('pull', model), { status: 0, stderr: /^(?!.*which no node has)[^]*next: / })
})

t.test('a build that is added to a running node', { timeout: 120_000 }, async (t) => {
  const directory = folder(t)
  const archive = join(directory, nameOf('b7'))
  writeFileSync(archive, archiveOf('b7', { server: standIn(directory) }))
  const node = await startNode(t, { config, ready: false })
  const place = async () => await ask(node, '/place_instance',
    { body: { model_id: MODEL, wait: true, timeout_seconds: 60 } })
  const chat = async () => await ask(node, '/v1/chat/completions',
    { body: { model: MODEL, messages: [{ role: 'user', content: 'Hello' }] } })
  const engine = async (...words: string[]) => await svc(['engine', ...words, '--home', node.home])

  t.match(await place(), { status: 400, json: { error: {
    reason: 'engine_missing', details: { command: 'svc engine add llama.cpp' }
  } } })
  t.match((await chat()).text, 'svc engine add llama.cpp', 'so says a request')

  const added = await engine('add', 'llama.cpp', '--from', archive, '--backend', 'cpu')
  t.equal(added.status, 0, added.stderr)
  const placed = await place()
  t.equal(placed.status, 200, placed.text)
  const answer = await chat()
  t.equal(answer.status, 200, answer.text)
  t.match((await ask(node, '/state')).json, { nodeResources: { [node.nodeId]: {
    engines: { 'llama-server': { from: 'build', tag: 'b7', backend: 'cpu' } }
  } } })

  t.match(await engine('rm', 'llama.cpp', 'b7-cpu'), { status: 1, stderr: /b7-cpu is in use/ })
  const { instances } = (await ask(node, '/state')).json as { instances: Record<string, unknown> }
  const gone = await ask(node, `/instance/${Object.keys(instances)[0]!}`, { method: 'DELETE' })
  t.equal(gone.status, 200, gone.text)
  t.match(await engine('rm', 'llama.cpp', 'b7-cpu'), { status: 0 })
  t.match(await place(), { status: 400, json: { error: { reason: 'engine_missing' } } })
})
