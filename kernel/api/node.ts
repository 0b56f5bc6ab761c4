export interface NodeInfo {
  readonly nodeId: string
  readonly installId: string
  readonly name: string
  readonly home: string
  readonly version: string
  /** Absolute path of the svc.yaml in use, or null. */
  readonly configPath: string | null
}

export interface Logger {
  debug (fields: Record<string, unknown>, message: string): void
  info (fields: Record<string, unknown>, message: string): void
  warn (fields: Record<string, unknown>, message: string): void
  error (fields: Record<string, unknown>, message: string): void
  fatal (fields: Record<string, unknown>, message: string): void
}
