/** Pairs devices with complete nodes through the command line. */
import { cli, folder, run, until, type Child, type TestNode } from './kit.js'
import type { Test } from 'tap'

type Where = Pick<TestNode, 'home' | 'url'>

function verb (t: Test, ...words: string[]): Child {
  const child = run(process.execPath, [cli, ...words, '--digits-stdin'], { input: null })
  t.teardown(() => { child.process.kill('SIGKILL') })
  return child
}

/** The six digits that a running `svc` verb prints. */
const digitsOf = async ({ over, stderr }: Child): Promise<string> => await until('six digits', () => {
  if (over()) throw new Error(`it exited early: ${stderr()}`)
  return /(?:must be|shows:) (\d{6})/.exec(stderr())?.[1]
})

/** Runs `svc pair` at a node; resolves once pairing is open. */
export async function openPairingAt (t: Test, { home, url }: Where, ...options: string[]): Promise<Child> {
  const host = verb(t, '--home', home, '--url', url, 'pair', ...options)
  await until('the pairing is open', async () => host.stderr().includes('svc device pair'))
  return host
}

/** Runs `svc device pair` in a fresh home; returns the digits that it prints. */
export async function devicePair (
  t: Test, url: string
): Promise<{ home: string, device: Child, digits: string }> {
  const home = folder(t)
  const device = verb(t, '--home', home, 'device', 'pair', url, '--name', 'tablet')
  return { home, device, digits: await digitsOf(device) }
}

/** Types the other side's digits into a running verb. */
export const typeDigits = ({ process: { stdin } }: Child, digits: string): void => {
  stdin!.end(`${digits}\n`)
}

/** Pairs a device; the device and the operator each confirm the other side's digits. */
export async function pairAt (
  t: Test, node: Where, ...options: string[]
): Promise<{ home: string, told: string }> {
  const host = await openPairingAt(t, node, ...options)
  const { device, digits, home } = await devicePair(t, node.url)
  const shown = await digitsOf(host)
  t.equal(shown, digits, 'the same digits on both sides')
  typeDigits(host, digits)
  typeDigits(device, shown)
  t.equal(await device.ended, 0, device.stderr())
  t.equal(await host.ended, 0, host.stderr())
  return { home, told: device.stderr() }
}
