/** Runs Claude Code from its package, with a model whose context fits its prompt of some 35,000 tokens. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { cli, folder, run } from '../node/kit.js'
import { claudeCode, longModel, MODEL, report, startRecorded, withoutClaudeCode } from './kit.js'

interface Said { is_error: boolean, result: string, num_turns: number, usage: { output_tokens: number } }

/** Runs `claude -p` against a node, without the settings of this machine; returns its JSON report. */
async function claude (t: Test, url: string, model: string): Promise<Said> {
  const home = folder(t)
  // The environment of a user who also uses Claude Code must not leak into the test.
  const env = {
    PATH: process.env['PATH'] ?? '', HOME: home, ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: 'none',
    ANTHROPIC_MODEL: model, ANTHROPIC_SMALL_FAST_MODEL: model, CLAUDE_CODE_MAX_RETRIES: '0',
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: '20', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1'
  }
  const pairs = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const asked = ['-p', 'hi', '--output-format', 'json']
  const child = run('env', ['-i', ...pairs, claudeCode, ...asked], { cwd: home })
  await child.ended
  return JSON.parse(child.stdout()) as Said
}

t.test('@anthropic-ai/claude-code 2.1.197', { skip: withoutClaudeCode }, async (t) => {
  const { node, url, exchanges } = await startRecorded(t)
  const path = join(folder(t), 'long')
  for (const [name, data] of Object.entries(longModel())) {
    const file = join(path, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, data)
  }
  const svc = async (...args: string[]): Promise<void> => {
    const child = run(process.execPath, [cli, ...args], { env: { SVC_HOME: node.home } })
    t.equal(await child.ended, 0, child.stderr())
  }
  await svc('pull', path, '--as', 'acme/long')
  await svc('place', 'acme/long', '--ctx', '65536', '--wait')
  await svc('pull', path, '--as', 'acme/short')
  await svc('place', 'acme/short', '--ctx', '8192', '--wait')
  const said = await claude(t, url, 'acme/long')
  t.match(said, { num_turns: 1 }, said.result)
  t.ok(said.usage.output_tokens > 0, 'the model has written')
  t.notMatch(said.result, /API Error: 4/)
  const short = await claude(t, url, 'acme/short')
  t.match(short, { is_error: true, result: /Prompt is too long.*limit 8192/ }, 'it reads why it is refused')
  const toolless = await claude(t, url, MODEL)
  t.match(toolless, { is_error: true, result: /Prompt is too long/ })
  report(t, {
    client: 'Claude Code', packages: ['@anthropic-ai/claude-code'],
    set: '`ANTHROPIC_BASE_URL=URL`, `ANTHROPIC_AUTH_TOKEN=none`, `ANTHROPIC_MODEL`; a context of 65,536',
    works: ['prompts with tools', 'stream', 'the error of a prompt that is too long']
  }, exchanges, [{
    path: '/v1/messages', status: 400, sent: /"model":"(acme\/short|svc\/guide)"/, got: /prompt is too long/i,
    why: 'its first prompt does not fit a model with a shorter context'
  }])
})
