/** Runs the examples of docs/operations/clients.md; only the node's address is replaced. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { root, run } from '../node/kit.js'
import { script, startClients, withoutClients } from './kit.js'

/** The code blocks of the page with their headings. */
function examples (): { title: string, language: string, text: string }[] {
  const page = readFileSync(join(root, 'docs/operations/clients.md'), 'utf8')
  return page.split(/^## /m).slice(1).flatMap((section) => {
    const [title = ''] = section.split('\n')
    return [...section.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
      .map(([, language = '', text = '']) => ({ title, language, text }))
  })
}

t.test('each line works as written', { skip: withoutClients }, async (t) => {
  const node = await startClients(t)
  const here = (text: string): string => text.replaceAll('http://127.0.0.1:52415', node.url)
  const all = examples()
  t.same(all.map(({ title }) => title), ['curl', 'openai', 'anthropic', 'ollama', 'ollama', 'ollama',
    'ai (Vercel AI SDK)', 'LangChain', 'Open WebUI', 'LibreChat', 'Continue', 'Claude Code'])
  for (const { title, language, text } of all) {
    if (language === 'js') {
      t.match(await script(t, title.replace(/\W/g, '-'), here(text)), /svc stop/, title)
    } else if (title === 'curl') {
      const child = run('bash', ['-euc', here(text)])
      t.equal(await child.ended, 0, child.stderr())
      t.match(child.stdout(), /svc stop/)
    } else if (language === 'yaml') {
      // The clients of these examples cannot run here, so their configuration is only parsed and checked.
      const said = JSON.stringify(parse(here(text)))
      const [, base = ''] = /"(http:[^"]+)"/.exec(said) ?? []
      t.equal((await fetch(`${base}/models`)).status, 200, `${title}: ${base}`)
      t.match(said, /svc\/guide/)
    }
  }
  // Open WebUI and the program `ollama` ask for the version first.
  const hosts = all.flatMap(({ text }) => /\bOLLAMA_\w+=(\S+)/.exec(here(text))?.[1] ?? [])
  t.equal(hosts.length, 2)
  for (const host of hosts) t.equal((await fetch(`${host}/api/version`)).status, 200, host)
})
