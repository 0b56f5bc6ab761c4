import { exitCodeMeanings } from './errors.js'

const variables: readonly (readonly [name: string, meaning: string])[] = [
  ['SVC_URL', 'address of the node, as --url'],
  ['SVC_TOKEN', 'token to send, as --token'],
  ['SVC_HOME', 'home directory, as --home'],
  ['SVC_CONFIG', 'svc.yaml to use, as --config'],
  ['SVC_<SETTING>', 'overrides a setting of svc.yaml: SVC_API_PORT is api.port'],
  ['SVC_NO_LAUNCHER', '1: `svc up` runs without its launcher; /admin/restart then ends the node'],
  ['SVC_TELEMETRY_DISABLE', '1: this node tells the others nothing of its memory, load and disk'],
  ['SVC_DEBUG', '1: unexpected errors of the command line come with their stack'],
  ['NO_COLOR', 'no colours']
]

const columns = (rows: readonly (readonly [left: string | number, right: string])[]): string => {
  const width = Math.max(...rows.map(([left]) => String(left).length))
  return rows.map(([left, right]) => `  ${String(left).padEnd(width)}  ${right}`).join('\n')
}

/** What `svc help TOPIC` knows beside the verbs. */
export const helpTopics: Readonly<Record<string, () => string>> = {
  'exit-codes': () => `Exit codes of svc:\n${columns(exitCodeMeanings)}`,
  environment: () => `Environment variables:\n${columns(variables)}`
}
