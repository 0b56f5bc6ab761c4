/** Measures the heap of another Node process after a full garbage collection. */
import { fileURLToPath } from 'node:url'
import { WebSocket } from 'ws'
import { until } from '../node/kit.js'

/** Environment with which a process must start for `heapOf`; sets the port of its inspector. */
export const inspectable = (port: number): Record<string, string> => ({
  NODE_OPTIONS: `--import=${fileURLToPath(new URL('inspect.mjs', import.meta.url))}`,
  TEST_INSPECT_PORT: `${port}`
})

interface Reply { id: number, result: { usedSize?: number } }

/**
 * Bytes in use on the JS heap of a process started with `inspectable(port)`, after a full collection. Opens
 * its inspector with a signal if it is not open yet.
 */
export async function heapOf (pid: number, port: number): Promise<number> {
  process.kill(pid, 'SIGUSR2')
  const url = await until('the inspector', async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/json/list`).catch(() => undefined)
    const list = await answer?.json() as { webSocketDebuggerUrl: string }[] | undefined
    return list?.[0]?.webSocketDebuggerUrl
  })
  const ws = new WebSocket(url)
  await new Promise((resolve, reject) => { ws.once('open', resolve); ws.once('error', reject) })
  const ask = (id: number, method: string): Promise<Reply['result']> => new Promise((resolve) => {
    const listen = (data: Buffer): void => {
      const reply = JSON.parse(data.toString()) as Reply
      if (reply.id !== id) return
      ws.off('message', listen)
      resolve(reply.result)
    }
    ws.on('message', listen)
    ws.send(JSON.stringify({ id, method }))
  })
  try {
    // Collects twice, because finalizers that run after the first collection release more objects.
    await ask(1, 'HeapProfiler.collectGarbage')
    await ask(2, 'HeapProfiler.collectGarbage')
    return (await ask(3, 'Runtime.getHeapUsage')).usedSize ?? Number.NaN
  } finally {
    ws.close()
  }
}
