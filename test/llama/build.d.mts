export class BuildError extends Error {}
export function buildLlama (): string
