/** Relays and remote devices as real processes. */
import { ask, type At } from './http.js'
import { cli, folder, run, until, type Child, type TestNode } from './kit.js'
import { hardKill } from './proc.js'
import type { Test } from 'tap'

/** A running process that has printed its address. */
export interface Listening { url: string, port: number, pid: number, child: Child, bearer: string | null }

async function listening (
  t: Test, what: string, words: readonly string[], env: Record<string, string> = {}
): Promise<Listening> {
  const child = run(process.execPath, [cli, ...words, '--json'], { env: { HOME: folder(t), ...env } })
  t.teardown(() => { hardKill(child.pid) })
  const line = await until(`the line of ${what}`, () => {
    if (child.over()) throw new Error(`${what} exited early: ${child.stderr()}`)
    return child.stdout().split('\n').find((text) => text.startsWith('{"url"'))
  })
  const said = JSON.parse(line) as { url: string, token?: string | null }
  return {
    url: said.url, bearer: said.token ?? null, port: Number(new URL(said.url).port), pid: child.pid, child
  }
}

export const startRelay = async (t: Test, port = 0, ...options: string[]): Promise<Listening> =>
  await listening(t, 'svc relay', ['relay', '--port', String(port), ...options])

/** Runs `svc device serve` for the device of a home. */
export const serveDevice = async (
  t: Test, home: string, env: Record<string, string> = {}
): Promise<Listening> =>
  await listening(t, 'svc device serve', ['device', 'serve', '--port', '0', '--home', home], env)

/** Kills a process without warning, as a power cut would, and waits until it has exited. */
export async function killed ({ child }: Listening): Promise<void> {
  hardKill(child.pid)
  await child.ended
}

export interface RelayView { connected: boolean, reason: string | null, connections: number, streams: number }

export const relayView = async (node: TestNode): Promise<RelayView> =>
  (await ask(node, '/v1/relay')).json as RelayView

export const atRelay = async (node: TestNode): Promise<void> => {
  await until(`${node.url} to be at its relay`, async () => (await relayView(node)).connected)
}

/** The value of one of a relay's metrics. */
export async function counted ({ url }: At, name: string): Promise<number> {
  const { text } = await ask({ url }, '/metrics')
  return Number(new RegExp(`^svc_relay_${name} (\\d+)$`, 'm').exec(text)?.[1])
}
