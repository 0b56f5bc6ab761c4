/** Paired devices of whole nodes, as people make them. */
import { cli, folder, run, svc, until } from './kit.js'
import type { Test } from 'tap'
import type { TestNode } from './kit.js'

/** `svc pair` at a node whose operator says yes, and `svc device pair` in a home of its own. */
export async function pairAt (
  t: Test, node: Pick<TestNode, 'home' | 'url'>, ...options: string[]
): Promise<{ home: string, told: string }> {
  const home = folder(t)
  const url = ['--url', node.url]
  const host = run(process.execPath, [cli, '--home', node.home, ...url, 'pair', ...options], { input: 'y\n' })
  await until('the pairing is open', async () => host.stderr().includes('svc device pair'))
  const device = await svc(['--home', home, 'device', 'pair', node.url, '--name', 'tablet'])
  t.equal(device.status, 0, device.stderr)
  t.equal(await host.ended, 0, host.stderr())
  const digits = (text: string): string | undefined => /\d{6}/.exec(text)?.[0]
  const shown = digits(device.stderr.split('shows')[1] ?? '')
  t.equal(digits(host.stderr().split('must be')[1] ?? ''), shown, 'the same digits on both sides')
  return { home, told: device.stderr }
}
