/** Requests to the faulty engine of fixtures/fault-engine.mjs, and reports on its runners. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from './http.js'
import { until, type TestNode } from './kit.js'
import { alive } from './proc.js'

export const TTS = 'tts@1.0.0'

/** Payload that tells the faulty engine how to behave. */
export const does = (model: string, what: string, options: object = {}, text = 'x'): object =>
  ({ model, text, instruct: JSON.stringify({ do: what, ...options }) })

export interface Report { pid: number | null, modelId: string, statusKind: string, restarts: number,
  inProgressTasks: string[] }

/** The node's report on its runner for a model. */
export async function report (node: TestNode, model: string): Promise<Report> {
  // Retries, because a node that has just started checks its disks before it starts runners.
  return await until(`a runner of ${model}`, () => reported(node, model))
}

async function reported (node: TestNode, model: string): Promise<Report | undefined> {
  const { supervisorRunners } = (await ask(node,
    '/v1/diagnostics/node')).json as { supervisorRunners: Report[] }
  return supervisorRunners.find((r) => r.modelId === model)
}

export const ready = (node: TestNode, model: string): Promise<Report> => until(`a ready runner of ${model}`,
  async () => {
    const found = await reported(node, model)
    return found?.statusKind === 'RunnerReady' && found.pid !== null && alive(found.pid) && found
  })

/** Logged output from a node's runners. */
export function runnerLogs (home: string): { text: string, bytes: number }[] {
  return (readdirSync(join(home, 'run/runners'), { recursive: true }) as string[]).filter((name) =>
    name.includes('runner.log'))
    .map((name) => join(home, 'run/runners', name))
    .map((path) => ({ text: readFileSync(path, 'utf8'), bytes: statSync(path).size }))
}
