export interface NodeInfo {
  readonly nodeId: string
  readonly installId: string
  readonly name: string
  readonly home: string
  readonly version: string
  /** Absolute path of the svc.yaml in use, or null. */
  readonly configPath: string | null
}

export type Logger = Record<
  'debug' | 'info' | 'warn' | 'error' | 'fatal', (fields: Record<string, unknown>, message: string) => void>
