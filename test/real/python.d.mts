export function pythonEnvironment (name: string, requirements: string):
  { folder: string, missing?: undefined } | { folder?: undefined, missing: string }
