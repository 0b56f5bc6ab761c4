import t from 'tap'
import { definePlugin } from '../../../kernel/index.js'
import { cli, type Ran } from '../../../kernel/test/cli-helpers.js'
import { bundled } from '../../index.js'

const env = { SVC_HOME: t.testdir({}) }

const svc = async (words: string[], stdin: string | Buffer[] = '', plugins = bundled): Promise<Ran> =>
  await cli(words, { stdin, plugins, env })

t.test('a question has an answer on stdout, without a node', async (t) => {
  const table: readonly (readonly [question: string, answer: RegExp])[] = [
    ['how do I place a model', /`svc place MODEL`/],
    ['no_quorum', /HTTP 503/],
    ['what does --exclude do', /`--exclude NODE` keeps it off one/],
    ['run nowhere else', /^(?!Usage)\S/],
    ['how do I roast a duck', /^I only know svc/],
    ['the node', /^I am not sure what you mean\. The nearest subjects:\n\n( {2}\S.*\n){3}\n/]
  ]
  for (const [question, answer] of table) {
    const ran = await svc(['help', ...question.split(' ')])
    t.match(ran, { status: 0, err: '' }, question)
    t.match(ran.out, answer, question)
    t.notMatch(ran.out, '\u001b', 'no colours in a pipe')
  }
})

t.test('--json says what was found, and how sure it is', async (t) => {
  const { out } = await svc(['help', 'what', 'is', 'no_quorum', '--json'])
  t.match(JSON.parse(out), { question: 'what is no_quorum', id: 'error:no_quorum', sure: true })
  const unsure = await svc(['help', 'the node', '--json'])
  t.match(JSON.parse(unsure.out), { sure: false, near: { length: 3 } })
})

t.test('- takes the question from a pipe', async (t) => {
  t.match((await svc(['help', '-'], 'svc: there is no_quorum again\n')).out, /HTTP 503/)
  t.match((await svc(['help', '-'], 'x'.repeat(100_000))).out, /^I only know svc/)
  const letters = [...Buffer.from('où est le modèle')].map((byte) => Buffer.of(byte))
  const cut = JSON.parse((await svc(['help', '-', '--json'], letters)).out) as { question: string }
  t.equal(cut.question, 'où est le modèle', 'letters that come in pieces')
  t.match(await svc(['help', '-'], ' \n'), { status: 2, out: '', err: /the question is missing/ })
})

t.test('verbs and topics keep their pages', async (t) => {
  t.match((await svc(['help'])).out, /Usage: svc \[options\]/)
  t.match((await svc(['help', 'place'])).out, /Usage: svc place/)
  t.match((await svc(['help', 'plugin', 'new'])).out, /Usage: svc plugin new/)
  t.match((await svc(['help', 'exit-codes'])).out, /^Exit codes of svc/)
  t.match((await svc(['help', 'help'])).out, /Usage: svc help[\s\S]*Examples:\n {2}svc help place/)
  t.match((await svc(['help', '--help'])).out, /Usage: svc help/)
})

t.test('words of a plugin in svc.yaml are known too', async (t) => {
  const guest = definePlugin({
    name: 'garden', version: '1.0.0', kernel: '^1.0.0', summary: 'Grows.',
    errors: { too_dry: { status: 409, message: 'The bed is dry.', remedy: 'Water it.', retryable: false } }
  }, () => ({}))
  const { out } = await svc(['help', 'what', 'is', 'too_dry'], '', [...bundled, guest])
  t.match(out, /^`too_dry` \(error, HTTP 409\): The bed is dry\. Water it\./)
})

t.test('svc docs codes lists every word with what to do', async (t) => {
  const { out } = await svc(['docs', 'codes', '--json'])
  const { codes } = JSON.parse(out) as { codes: { kind: string, code: string, remedy: string | null }[] }
  for (const { manifest } of bundled) {
    for (const word of Object.keys(manifest.errors ?? {})) {
      const found = codes.find(({ kind, code }) => kind === 'error' && code === word)
      t.ok((found?.remedy ?? '') !== '', word)
    }
  }
})
